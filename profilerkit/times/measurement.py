"""Measured quantities with every sample kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from statistics import stdev
from typing import Any

from ..arguments.checks import Check, between, inside, one_number, several
from ..errors import ArgumentError
from .conditions import Conditions
from .median import MedianInterval, find_median_interval
from .percentiles import PERCENTILES, compute_percentile
from .wording import format_percent, name_range, warn_of_noise

__all__ = ["Measurement", "divide"]


def divide(value: float, reference: float) -> float:
    """Return a quotient; a rate whose time was zero is infinite, as a clock may stand still for a while.

    >>> divide(6, 4), divide(6, 0)
    (1.5, inf)
    """
    if reference:
        return value / reference
    return math.nan if value == 0 else math.copysign(math.inf, value)


def _read_samples(value: Any) -> tuple[float, ...]:
    """Return samples; raises `ValueError` if one is NaN. Infinite ones are accepted: see `divide`."""
    samples = value if type(value) is tuple else tuple(several(value))
    if not {float, int}.issuperset(map(type, samples)):
        samples = tuple(float(one_number(sample)) for sample in samples)
    if any(map(math.isnan, samples)):
        raise ValueError
    return samples


_SAMPLES = Check("numbers in the base unit, none of which is NaN", _read_samples)
#: The probability of an interval.
CONFIDENCE = inside(0, 1, "a probability between 0 and 1, such as 0.95")
PERCENT = between(0, 100, "a number from 0 to 100")


@dataclass(frozen=True)
class Measurement:
    """The samples of one quantity in its base unit (seconds for a time), and their statistics.

    As a number, a measurement is its median: ``float(m)``, ``m < 0.1``, ``f"{m:.3f}"``. Arithmetic with a number, such
    as ``macs / m``, changes every sample: the result is a new measurement with its own interval. Arithmetic of two
    measurements uses their medians, and its result is a number.

    Attributes:
        samples: The samples, in the order in which they were taken.
        confidence: The probability of the interval.
        warmup: The samples that were left out first.
        session: A value that measurements share if their samples were taken in turn, so that the samples are pairs.
        precision: The ``noise`` that was requested, or None.
        adaptive: Whether the samples decided when to stop.
        conditions: The machine during the measurement, or None.

    >>> Measurement((2.0, 1.0, 3.0)).median
    2.0
    """

    samples: tuple[float, ...]
    confidence: float = 0.95
    warmup: tuple[float, ...] = ()
    session: int | str | None = None
    precision: float | None = None
    adaptive: bool = False
    conditions: Conditions | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", _SAMPLES("samples", self.samples))
        object.__setattr__(self, "warmup", _SAMPLES("warmup", self.warmup))
        object.__setattr__(self, "confidence", CONFIDENCE("confidence", self.confidence))
        if not self.samples:
            raise ArgumentError("samples=(): a Measurement needs at least one sample")

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Measurement(median={self.median:.4g}, interval=({low:.4g}, {high:.4g}), samples={len(self.samples)})"

    @property
    def median(self) -> float:
        """The middle sample: half of the samples are below it."""
        return compute_percentile(self.samples, 50)

    @property
    def mean(self) -> float:
        """The arithmetic mean of the samples."""
        try:
            return math.fsum(self.samples) / len(self.samples)
        except (OverflowError, ValueError):  # the sum is beyond all floats, or there are infinities of both signs
            return sum(self.samples) / len(self.samples)

    @property
    def std(self) -> float:
        """The standard deviation of the samples, with n - 1 as the divisor; NaN for one sample.

        It does not tell how precise the median is; ``interval`` does, and it assumes no distribution.
        """
        return stdev(self.samples) if len(self.samples) > 1 and all(map(math.isfinite, self.samples)) else math.nan

    @property
    def min(self) -> float:
        """The smallest sample."""
        return min(self.samples)

    @property
    def max(self) -> float:
        """The largest sample."""
        return max(self.samples)

    @property
    def iqr(self) -> float:
        """The interquartile range: the width of the middle half of the samples."""
        return self.percentile(75) - self.percentile(25)

    @property
    def p50(self) -> float:
        """The median."""
        return self.percentile(50)

    @property
    def p90(self) -> float:
        """The 90th percentile: 90 % of the samples are smaller."""
        return self.percentile(90)

    @property
    def p95(self) -> float:
        """The 95th percentile: 95 % of the samples are smaller."""
        return self.percentile(95)

    @property
    def p99(self) -> float:
        """The 99th percentile. With fewer than 100 samples it is close to the largest sample."""
        return self.percentile(99)

    def percentile(self, percent: float) -> float:
        """Return the sample below which ``percent`` per cent of the samples lie, interpolated linearly."""
        return compute_percentile(self.samples, PERCENT("percent", percent))

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval of the median. It assumes no distribution of the samples.

        Its ends are samples (binomial sign-test interval; Conover, Practical Nonparametric Statistics, section 3.2).
        Fewer than six samples cannot give 95 %: the interval is then their whole range, and ``is_range`` is True. The
        interval is made wider if the samples decided when to stop (``adaptive``), and if neighboring samples are
        similar, so that it contains the median as often as it promises.
        """
        return self._median_interval.low, self._median_interval.high

    @property
    def _median_interval(self) -> MedianInterval:
        return find_median_interval(self.samples, self.confidence, self.adaptive)

    @property
    def coverage(self) -> float:
        """The probability that the interval contains the median, exact for independent samples; 0.75 for three."""
        return self._median_interval.coverage

    @property
    def is_range(self) -> bool:
        """Whether the samples are too few for ``confidence``, so that the interval is only their range."""
        return self._median_interval.is_range

    @property
    def effective_samples(self) -> float:
        """The number of independent samples that give the same precision. It is smaller if neighbors are similar."""
        return self._median_interval.effective

    @property
    def interval_name(self) -> str:
        """The name of the interval: "95 % interval", or "range of 3 samples, 75 %"."""
        if self.is_range:
            return name_range(len(self.samples), "sample", self.coverage)
        return f"{format_percent(self.confidence)} interval"

    @property
    def noise(self) -> float:
        """Half the width of the interval over the median: 0.02 is plus or minus 2 %."""
        low, high = self.interval
        return (high - low) / 2 / abs(self.median) if self.median else math.inf

    @property
    def uncertainty(self) -> float:
        """The relative error of the median that reports show.

        It is ``noise``. If only few of many samples are independent, the interval is the range of all samples, and one
        slow pass decides its width. Half the distance between the quartiles is shown instead.
        """
        if not self.is_range or self.effective_samples == len(self.samples) or not self.median:
            return self.noise
        return self.iqr / 2 / abs(self.median)

    def is_paired_with(self, other: Measurement) -> bool:
        """Return whether the two were sampled in turn, and have as many samples, so that their samples are pairs."""
        in_turn = self.session is not None and self.session == other.session
        return in_turn and len(self.samples) == len(other.samples)

    @property
    def is_noisy(self) -> bool:
        """Whether the median is less precise than requested."""
        too_few = self.is_range and self.effective_samples == len(self.samples)
        return self.precision is not None and (too_few or self.noise > self.precision)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the number, one sentence each: too much noise, or a busy machine."""
        warnings = []
        if self.is_noisy and self.precision is not None:
            number, interval = len(self.samples), self._median_interval
            warnings.append(
                warn_of_noise(interval, self.noise, self.precision, number=number, sample="sample", result="median")
            )
        if self.conditions is not None and self.conditions.busy:
            warnings.append(self.conditions.busy)
        return tuple(warnings)

    @property
    def warning(self) -> str | None:
        """All ``warnings`` in one line; None if there are none."""
        return "; ".join(self.warnings) or None

    def to_dict(self) -> dict[str, Any]:
        """Return all statistics and samples as values for JSON."""
        low, high = self.interval
        return {
            "median": self.median,
            "low": low,
            "high": high,
            "confidence": self.confidence,
            "coverage": self.coverage,
            "is_range": self.is_range,
            "effective_samples": self.effective_samples,
            **{name: getattr(self, name) for name in ("mean", "iqr", "min", "max")},
            "std": self.std if math.isfinite(self.std) else None,
            **{f"p{percent}": self.percentile(percent) for percent in PERCENTILES},
            "noise": self.noise if math.isfinite(self.noise) else None,
            "warning": self.warning,
            "adaptive": self.adaptive,
            "session": self.session,
            "samples": list(self.samples),
            "warmup": list(self.warmup),
            "conditions": None if self.conditions is None else asdict(self.conditions),
        }

    def map(self, function: Callable[[float], float]) -> Measurement:
        """Return a measurement whose samples are computed from these: ``m.map(lambda s: batch / s)``.

        The new measurement has no warning about noise; the original has it.
        """
        samples, warmup = (tuple(map(function, taken)) for taken in (self.samples, self.warmup))
        return replace(self, samples=samples, warmup=warmup, precision=None)

    # A measurement as a number ----------------------------------------------------------------------------------------

    def __float__(self) -> float:
        return self.median

    def __truediv__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda sample, number: sample / number)

    def __rtruediv__(self, other: float) -> Any:
        return self._with(other, lambda sample, number: divide(number, sample))

    def __mul__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda sample, number: sample * number)

    __rmul__ = __mul__

    def __add__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda sample, number: sample + number)

    __radd__ = __add__

    def __sub__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda sample, number: sample - number)

    def __rsub__(self, other: float) -> Any:
        return self._with(other, lambda sample, number: number - sample)

    def __le__(self, other: float | Measurement) -> bool:
        return float(self) <= float(other)

    def __ge__(self, other: float | Measurement) -> bool:
        return float(self) >= float(other)

    def __lt__(self, other: float | Measurement) -> bool:
        return float(self) < float(other)

    def __gt__(self, other: float | Measurement) -> bool:
        return float(self) > float(other)

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)

    def __format__(self, specification: str) -> str:
        return format(float(self), specification) if specification else str(self)

    def _with(self, other: float | Measurement, operation: Callable[[float, float], float]) -> Any:
        """Apply an operation to every sample and a number; of two measurements, to their medians."""
        if isinstance(other, Measurement):
            return operation(self.median, other.median)
        try:
            number = float(other)
        except (TypeError, ValueError):
            return NotImplemented
        return self.map(lambda sample: operation(sample, number))
