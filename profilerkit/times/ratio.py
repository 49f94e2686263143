"""Ratios of two values, measured or exact, with their interval.

The ratio of two measurements that were sampled in turn comes from the pairs of their samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high, median_low
from typing import Any

from ..arguments.checks import Check, one_number
from .measurement import Measurement, divide
from .median import MedianInterval, find_median_interval
from .wording import name_range, warn_of_noise

__all__ = ["Ratio"]


def _read_amount(value: Any) -> Any:
    return value if isinstance(value, Measurement) else float(one_number(value))


_AMOUNT = Check("a number or a Measurement", _read_amount)


@dataclass(frozen=True)
class Ratio:
    """The ratio of two values, with its confidence interval: ``value``, ``low``, ``high``.

    Attributes:
        value: The ratio.
        low: The lower end of its interval; of two exact values, the value.
        high: The upper end, likewise.
        paired: Whether the samples were taken in turn. If not, the interval is the widest that both measurements allow.
        coverage: The probability that the interval contains the ratio. If the samples are not paired, it is the smaller
            coverage of the two.
        is_range: Whether there are too few pairs, or samples, for an interval. It is then their range, and shows no
            difference.
        pairs: The number of pairs; 0 if the samples are not paired.
        effective_pairs: The number of independent pairs that give the same precision.
        precision: The ``noise`` that was requested, or None.
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
        """Whether the interval does not contain 1, so that there is a difference. False for a range."""
        return not self.is_range and (self.low > 1 or self.high < 1)

    @property
    def is_single(self) -> bool:
        """Whether one of the two values has a single sample, or is worth a single sample: nothing is known then."""
        return self.is_range and not self.coverage and self.pairs <= 1  # the range of one sample covers nothing

    @property
    def noise(self) -> float:
        """Half the width of the interval over the ratio: 0.01 is plus or minus 1 %."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else math.inf

    @property
    def interval_name(self) -> str:
        """The name of the interval: "interval", or "range of 3 pairs, 75 %"."""
        if not self.is_range:
            return "interval"
        return name_range(self.pairs, "pair", self.coverage) if self.pairs else "range"

    @property
    def warning(self) -> str | None:
        """A text if the ratio is less precise than requested; otherwise None."""
        if self.precision is None or not (self.is_range or self.noise > self.precision):
            return None
        interval = MedianInterval(self.low, self.high, self.coverage, self.is_range, self.effective_pairs)
        return warn_of_noise(interval, self.noise, self.precision, number=self.pairs, sample="pair", result="ratio")

    @classmethod
    def of(cls, reference: float | Measurement, other: float | Measurement) -> Ratio:
        """Return ``other`` divided by ``reference``, from the pairs if the two were sampled in turn.

        The ends of a measured reference whose interval holds 0 and negative numbers are infinite.
        """
        reference, other = _AMOUNT("reference", reference), _AMOUNT("other", other)
        if isinstance(reference, Measurement) and isinstance(other, Measurement) and reference.is_paired_with(other):
            return _divide_pairs(reference, other)
        low, high = _divide_intervals(_read_interval(other), _read_interval(reference))
        measured = [value for value in (reference, other) if isinstance(value, Measurement)]
        return cls(
            divide(float(other), float(reference)),
            low,
            high,
            coverage=min((value.coverage for value in measured), default=1.0),
            is_range=any(value.is_range for value in measured),
        )


def _read_interval(value: float | Measurement) -> tuple[float, float]:
    return value.interval if isinstance(value, Measurement) else (float(value), float(value))


def _divide_intervals(value: tuple[float, float], reference: tuple[float, float]) -> tuple[float, float]:
    """Return the smallest and the largest quotient of two intervals.

    >>> _divide_intervals((1, 2), (4, 5)), _divide_intervals((-1, 2), (4, 5)), _divide_intervals((1, 2), (-4, 5))
    ((0.2, 0.5), (-0.25, 0.5), (-inf, inf))
    >>> _divide_intervals((0, 0), (0, 5))  # a reference that may be 0 too may not differ
    (0.0, inf)
    """
    (low, high), (least, most) = value, reference
    if min(low, least) >= 0:
        return divide(low, most), math.inf if least == 0 < most else divide(high, least)
    if least < most and least <= 0 <= most:
        return -math.inf, math.inf
    quotients = [divide(end, divisor) for end in value for divisor in reference]
    return min(quotients), max(quotients)


def _divide_pairs(reference: Measurement, other: Measurement) -> Ratio:
    pairs = zip(reference.samples, other.samples, strict=True)
    every = (divide(sample, reference_sample) for reference_sample, sample in pairs)
    # A pair of zeros says nothing, and NaN cannot be sorted.
    quotients = tuple(quotient for quotient in every if not math.isnan(quotient)) or (math.nan,)
    interval = find_median_interval(quotients, reference.confidence, reference.adaptive or other.adaptive)
    return Ratio(
        _find_middle(quotients),
        interval.low,
        interval.high,
        paired=True,
        coverage=interval.coverage,
        is_range=interval.is_range,
        pairs=len(quotients),
        effective_pairs=interval.effective,
        # Two compared calls often differ little: their ratio has to be twice as precise as a median.
        precision=None if reference.precision is None else reference.precision / 2,
    )


def _find_middle(quotients: Sequence[float]) -> float:
    """Return the median of quotients; of two in the middle their geometric mean if none is negative.

    The ratio the other way round is then the reciprocal.
    """
    below, above = median_low(quotients), median_high(quotients)
    if below == above:
        return below
    return math.sqrt(below * above) if below >= 0 else (below + above) / 2
