"""The interval of a median: free of assumptions on the distribution, and wider if samples depend on each other.

The ends are samples, chosen by their ranks with the sign test (Conover, Practical Nonparametric Statistics, section
3.2): each independent sample is above the median with the probability 1/2, so the number above it is binomial. If
neighboring samples are alike, `dependence` computes the equivalent number of independent samples, and the interval
becomes wider.

The ends of an interval that was widened are among the outermost samples. An interruption there, of one sample or a few
that stand apart from all others, says nothing about the median: a piece of a drift would be many samples long. Such
samples are no ends of a widened interval; in simulation, the coverage is the same with and without them.

Sampling that looks at its samples and stops once they agree favors the stretches where they agree by chance: a plain
95 % interval then covers 93 % (in simulation; tests/profilerkit/times/test_sampling_statistics.py). If the samples
themselves said when to stop, intervals are therefore made with three fifths of the risk of error, and cover 95 % again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from .dependence import count_independent

__all__ = ["MedianInterval", "agree", "find_median_interval"]

#: The share of the risk of error for an interval whose own width ended the sampling; enough up to 95 %.
_SHARE_OF_RISK = 0.6
#: Samples that are worth fewer independent ones than these have no interval, only a range.
_FEWEST_EFFECTIVE = 6
#: At each end of a series, at most one of so many samples is taken for an interruption.
_SHARE_OF_INTERRUPTIONS = 20
#: Above so many samples the normal approximation of the binomial distribution is exact to a sample.
_MANY = 1000


@dataclass(frozen=True)
class MedianInterval:
    """The interval of a median.

    Attributes:
        low: The lower end, a sample.
        high: The upper end, a sample.
        coverage: The probability that the median lies between the ends. In an interval that was widened for dependent
            samples, it is the probability for the equivalent number of independent samples.
        is_range: Whether the samples are too few for the requested confidence. Then ``low`` and ``high`` are the
            smallest and the largest sample; for dependent samples, without interruptions.
        effective: The equivalent number of independent samples.
    """

    low: float
    high: float
    coverage: float
    is_range: bool
    effective: float


@lru_cache(maxsize=32)
def find_median_interval(samples: tuple[float, ...], confidence: float, adaptive: bool) -> MedianInterval:
    """Return the interval of the median of samples, which stand in the order in which they were taken.

    Args:
        samples: At least one.
        confidence: The probability with which the interval is to hold the median.
        adaptive: Whether the samples themselves said when to stop.
    """
    number = len(samples)
    ordered = sorted(samples)
    rank = _find_rank_of_end(number, confidence, adaptive)
    if rank is None:
        coverage = _compute_coverage(number, rank=1)
        return MedianInterval(ordered[0], ordered[-1], coverage=coverage, is_range=True, effective=number)
    effective = count_independent(samples)
    if effective < number:
        return _widen_interval(ordered, rank, effective)
    coverage = _compute_coverage(number, rank)
    return MedianInterval(ordered[rank - 1], ordered[-rank], coverage=coverage, is_range=False, effective=number)


def _widen_interval(ordered: Sequence[float], rank: int, effective: float) -> MedianInterval:
    """Return the interval of dependent samples, from the rank that the lower end had if they were independent.

    The distance of the ends from the middle grows as the standard error does, by the root of samples over effective
    ones. It grows a little more because the dependence itself is only estimated, as in Student's distribution with few
    degrees of freedom: by half for two effective samples, by a tenth for ten.
    """
    number = len(ordered)
    middle = (number + 1) / 2
    widening = math.sqrt(number / effective) * (1 + 1 / max(effective, 2))
    widened_rank = middle - widening * (middle - rank)
    is_range = widened_rank < 1 or effective < _FEWEST_EFFECTIVE
    index = 0 if is_range else math.floor(widened_rank) - 1
    low = ordered[max(index, _count_interruptions(ordered[::-1]))]
    high = ordered[number - 1 - max(index, _count_interruptions(ordered))]
    coverage = 1 - 2 * math.pow(0.5, effective) if is_range else _compute_coverage(number, rank)
    return MedianInterval(low, high, coverage=coverage, is_range=is_range, effective=effective)


def _count_interruptions(ordered: Sequence[float]) -> int:
    """Return how many samples at the end stand apart: the gap before them is wider than all others together.

    "All others" leaves out as many at the start as are tried at the end: there may be interruptions too. A twentieth of
    the samples is tried, and at least the last one.

    >>> _count_interruptions([14, 15, 16, 17, 900])
    1
    """
    most = max(1, len(ordered) // _SHARE_OF_INTERRUPTIONS)
    interruptions = 0
    for count in range(1, most + 1):
        last_of_others = ordered[-count - 1]
        gap = abs(ordered[-count] - last_of_others)
        if gap > abs(last_of_others - ordered[most]):
            interruptions = count
    return interruptions


def agree(samples: Sequence[float], confidence: float, precision: float) -> bool:
    """Return whether independent samples like these would give the median to plus or minus ``precision``, 0.02 say.

    This decides when to stop. It does not ask whether neighboring samples are alike: on a machine where they are, each
    measurement would take several times as long. The interval is then wider; see `find_median_interval`.
    """
    number = len(samples)
    ordered = sorted(samples)
    rank = _find_rank_of_end(number, confidence, adaptive=True)
    if rank is None or number < _FEWEST_EFFECTIVE:
        return False
    width = ordered[-rank] - ordered[rank - 1]
    median = (ordered[number // 2] + ordered[(number - 1) // 2]) / 2
    return width <= 2 * precision * abs(median)


def _find_rank_of_end(number: int, confidence: float, adaptive: bool) -> int | None:
    """Return the rank of the lower end for independent samples, from 1; None if they are too few.

    The upper end has the same rank, counted from the largest sample.
    """
    if _compute_coverage(number, rank=1) < confidence:
        return None
    risk = (1 - confidence) * (_SHARE_OF_RISK if adaptive else 1)
    return _find_largest_rank(number, risk / 2)


def _find_largest_rank(number: int, tail: float) -> int:
    """Return the largest rank r with P(Bin(number, 1/2) < r) <= tail, 1 at least.

    P is the probability that fewer than r samples are below the median, so that the sample of rank r is above it.
    """
    if number > _MANY:
        return max(math.floor(number / 2 + NormalDist().inv_cdf(tail) * math.sqrt(number) / 2), 1)
    rank = 0
    below = 0.5**number
    while below <= tail:
        rank += 1
        below += math.comb(number, rank) * 0.5**number
    return max(rank, 1)


def _compute_coverage(number: int, rank: int) -> float:
    """Return how often independent samples hold their median between the sample of a rank and its counterpart."""
    if number > _MANY:
        return 1 - 2 * NormalDist().cdf((rank - number / 2) * 2 / math.sqrt(number))
    return 1 - 2 * sum(math.comb(number, below) for below in range(rank)) / math.pow(2, number)
