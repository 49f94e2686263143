"""Measured quantities with every sample kept, and ratios of two of them.

The ratio of two that were sampled in turn comes from the pairs of their samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import stdev
from typing import Any

from ..arguments.checking import checked
from ..arguments.rules import of_kind
from ..errors import ArgumentError
from .conditions import Conditions
from .median import MedianInterval, median_interval
from .wording import counted, interval_name, noise_warning, percent_of

__all__ = ["PERCENTILES", "Measurement", "Ratio"]

#: The percentiles that have a name of their own.
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True)
class Measurement:
    """Samples of one quantity in its base unit (seconds for a time), and what follows from them.

    A measurement stands for its median wherever a number is wanted: ``float(m)``, ``m < 0.1``, ``f"{m:.3f}"``. A
    number times or over it, ``macs / m``, is again a measurement, with an interval of its own. Samples that were taken
    in turn with those of another measurement share its ``session``. ``precision`` is the noise that was requested, None
    where none was; ``adaptive`` says that the samples themselves said when to stop; ``conditions`` is what the machine
    did meanwhile, None where that was not recorded.

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
        object.__setattr__(self, "samples", checked("samples", self.samples))
        object.__setattr__(self, "warmup", checked("warmup", self.warmup, "samples"))
        object.__setattr__(self, "confidence", checked("confidence", self.confidence))
        if not self.samples:
            raise ArgumentError("samples=(): a Measurement needs at least one sample")

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Measurement(median={self.median:.4g}, interval=({low:.4g}, {high:.4g}), samples={len(self.samples)})"

    @property
    def median(self) -> float:
        """The middle sample: half of the samples are below it."""
        return _percentile(self.samples, 50)

    @property
    def mean(self) -> float:
        """The arithmetic mean of the samples."""
        try:
            return math.fsum(self.samples) / len(self.samples)
        except (OverflowError, ValueError):  # the sum is beyond all floats, or there are infinities of both signs
            return sum(self.samples) / len(self.samples)

    @property
    def std(self) -> float:
        """The standard deviation of the samples, with n - 1 below the sum; NaN for one sample, which has none.

        It is no measure of how well the median is known: that is ``interval``, which assumes no distribution.
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
        """The sample that nine in ten are below."""
        return self.percentile(90)

    @property
    def p95(self) -> float:
        """The sample that 95 in a hundred are below."""
        return self.percentile(95)

    @property
    def p99(self) -> float:
        """The sample that 99 in a hundred are below; of fewer than a hundred samples nearly the largest."""
        return self.percentile(99)

    def percentile(self, percent: float) -> float:
        """Return the sample below which ``percent`` per cent of the samples lie, interpolated linearly."""
        return _percentile(self.samples, checked("percent", percent))

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval of the median, free of any assumption on the distribution.

        Its ends are order statistics of the samples (binomial sign-test interval; Conover, Practical
        Nonparametric Statistics, section 3.2). Fewer than six samples cannot give 95 %: then it is their whole range,
        and ``is_range`` is True. Where sampling stopped because the interval was narrow enough (``adaptive``) it is
        wider, so that it covers what it says all the same, and so it is where neighboring samples are alike.
        """
        return self._median_interval.low, self._median_interval.high

    @property
    def _median_interval(self) -> MedianInterval:
        return median_interval(self.samples, self.confidence, self.adaptive)

    @property
    def coverage(self) -> float:
        """The probability that the interval holds the median: exact for independent samples, 0.75 for three."""
        return self._median_interval.coverage

    @property
    def is_range(self) -> bool:
        """Whether the samples are too few for ``confidence``, so that the interval is only their range."""
        return self._median_interval.is_range

    @property
    def effective_samples(self) -> float:
        """How many independent samples say as much of the median; fewer than there are where neighbors are alike."""
        return self._median_interval.effective

    @property
    def interval_name(self) -> str:
        """What the interval is, in words: "95 % interval", or "range of 3 samples, 75 %"."""
        return interval_name(self._median_interval, self.confidence, len(self.samples), "sample")

    @property
    def noise(self) -> float:
        """Half the width of the interval over the median: 0.02 is plus or minus 2 %."""
        low, high = self.interval
        return (high - low) / 2 / abs(self.median) if self.median else math.inf

    @property
    def uncertainty(self) -> float:
        """How far the median may be off, over the median, as it is shown: its noise, or what a mere range says of it.

        Where so few of many samples are independent that only their range is known, its ends are those of single
        passes, one slow pass among them. So half the distance between the quartiles is taken.
        """
        if not self.is_range or self.effective_samples == len(self.samples) or not self.median:
            return self.noise
        return (self.percentile(75) - self.percentile(25)) / 2 / abs(self.median)

    def taken_with(self, other: Measurement) -> bool:
        """Say whether the two were sampled in turn, so that their samples pair up."""
        return self.session is not None and self.session == other.session

    @property
    def is_noisy(self) -> bool:
        """Whether the median is not known as well as was requested."""
        too_few = self.is_range and self.effective_samples == len(self.samples)
        return self.precision is not None and (too_few or self.noise > self.precision)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the number should not be trusted too far: too much noise, a machine that was busy; one sentence each."""
        noise = noise_warning(self._median_interval, self.noise, self.precision or 0, len(self.samples), "median")
        busy = "" if self.conditions is None else self.conditions.busy
        return tuple(filter(None, (noise if self.is_noisy else "", busy)))

    @property
    def warning(self) -> str | None:
        """All ``warnings`` in one line, None where there is none."""
        return "; ".join(self.warnings) or None

    def to_dict(self) -> dict[str, Any]:
        """Return every statistic and every sample as values that JSON can hold."""
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
        """Return the measurement of a quantity that follows from each sample: ``m.map(lambda s: batch / s)``.

        The warning of noise stays with the original, of which it is true.
        """
        samples, warmup = (tuple(map(function, taken)) for taken in (self.samples, self.warmup))
        return replace(self, samples=samples, warmup=warmup, precision=None)

    def __float__(self) -> float:
        return self.median

    def __truediv__(self, other: float | Measurement) -> Any:
        return self._with(other, lambda sample, number: sample / number)

    def __rtruediv__(self, other: float) -> Any:
        return self._with(other, lambda sample, number: number / sample)

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


of_kind("reference", Measurement)


def _percentile(samples: Sequence[float], percent: float) -> float:
    ordered = sorted(samples)
    position = (len(ordered) - 1) * percent / 100
    lower, upper = ordered[math.floor(position)], ordered[math.ceil(position)]
    return lower + (upper - lower) * (position - math.floor(position)) if upper > lower else upper


@dataclass(frozen=True)
class Ratio:
    """One value over another, with its confidence interval: ``value``, ``low``, ``high``.

    ``paired`` says whether it comes from samples taken in turn; where it is False the interval is the widest that
    both measurements allow. Two exact values have an interval of no width. ``coverage`` is the probability that the
    interval holds the ratio, of two measurements that were not taken in turn the smaller of theirs. ``is_range`` says
    that ``pairs`` of samples, or the samples of one of the two, are too few for an interval, and that it is only their
    range: such a ratio shows no difference. ``effective_pairs`` is the number of independent pairs that would say as
    much. ``precision`` is half the relative width that was requested.
    """

    value: float
    low: float
    high: float
    paired: bool = False
    coverage: float = 1.0
    is_range: bool = False
    pairs: int = 0
    effective_pairs: float = 0.0
    precision: float | None = None

    @property
    def is_real(self) -> bool:
        """Whether the interval leaves out 1, that is, whether there is a difference; False for a mere range."""
        return not self.is_range and (self.low > 1 or self.high < 1)

    @property
    def noise(self) -> float:
        """Half the width of the interval over the ratio: 0.01 is plus or minus 1 %."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else math.inf

    @property
    def interval_name(self) -> str:
        """What the interval is, in words: "interval", or "range of 3 pairs, 75 %"."""
        if not self.is_range:
            return "interval"
        return f"range of {counted(self.pairs, 'pair')}, {percent_of(self.coverage)}" if self.pairs else "range"

    @property
    def warning(self) -> str | None:
        """Say that the ratio is not known as well as was requested; None where it is."""
        if self.precision is None or not (self.is_range or self.noise > self.precision):
            return None
        interval = MedianInterval(self.low, self.high, self.coverage, self.is_range, self.effective_pairs)
        return noise_warning(interval, self.noise, self.precision, self.pairs, "ratio")

    @classmethod
    def of(cls, reference: float | Measurement, other: float | Measurement) -> Ratio:
        """Return ``other`` over ``reference``; from the pairs where the two were sampled in turn."""
        reference, other = checked("reference", reference), checked("other", other, "reference")
        if isinstance(reference, Measurement) and isinstance(other, Measurement) and reference.taken_with(other):
            return _paired_ratio(reference, other)
        (ref_low, ref_high), (low, high) = _bounds(reference), _bounds(other)
        measured = [value for value in (reference, other) if isinstance(value, Measurement)]
        return cls(
            _divide(float(other), float(reference)),
            _divide(low, ref_high),
            _divide(high, ref_low),
            coverage=min((value.coverage for value in measured), default=1.0),
            is_range=any(value.is_range for value in measured),
        )


def _bounds(value: float | Measurement) -> tuple[float, float]:
    return value.interval if isinstance(value, Measurement) else (float(value), float(value))


def _divide(value: float, reference: float) -> float:
    if reference:
        return value / reference
    return math.nan if value == 0 else math.copysign(math.inf, value)


def _paired_ratio(reference: Measurement, other: Measurement) -> Ratio:
    pairs = zip(reference.samples, other.samples, strict=True)
    quotients = tuple(_divide(b, a) for a, b in pairs)
    ordered, middle = sorted(quotients), len(quotients) // 2
    # The middle of two is their geometric mean: the ratio the other way round is then the reciprocal.
    value = ordered[middle] if len(ordered) % 2 else math.sqrt(ordered[middle - 1] * ordered[middle])
    interval = median_interval(quotients, reference.confidence, reference.adaptive or other.adaptive)
    return Ratio(
        value,
        interval.low,
        interval.high,
        paired=True,
        coverage=interval.coverage,
        is_range=interval.is_range,
        pairs=len(quotients),
        effective_pairs=interval.effective,
        # Of two things that are much alike the difference is wanted, so their ratio is to be known twice as well.
        precision=None if reference.precision is None else reference.precision / 2,
    )
