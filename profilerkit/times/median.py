"""The interval of a median: free of assumptions on the distribution, and wider where samples hang together in time.

The ends are order statistics, chosen by the sign test (Conover, Practical Nonparametric Statistics, section 3.2). That
test takes the samples for independent. Where another process comes and goes, or the clock of the processor changes in
steps, neighbours are alike, and n samples say as much as fewer independent ones. Two steps find out:

1. Autocorrelations of the ranks at lag 1, and those at lags 1 to 4 together, are compared with what independent
   samples have (mean -1/n, variance 1/n a lag). Only if one of them is significant at 1 % does the second step
   follow, so that the interval of independent samples stays what it is: it is wider by 1 % on average for 100 samples,
   by 2 to 4 % for 30 (heavier tails, wider).
2. The signs of the deviations from the median say how much: their autocorrelations are summed up in pairs while these
   are positive, none above the one before (Geyer, Practical Markov Chain Monte Carlo, 1992), and corrected for the
   median being that of the samples. The sum is the number of samples that say as much as one.

The ends of a wide interval are among the outermost samples. An interruption there, of one sample or a few that stand
apart from all others, says nothing about the median: a piece of a drift would be many samples long. Such samples are
never ends (`_stand_apart`); in simulation, the coverage is the same with and without them.

What changes more slowly than about a tenth of the measurement cannot be known from its samples.

Sampling that looks at its samples and stops once they agree favors the stretches where they agree by chance: a plain
95 % interval then covers 93 % (in simulation; tests/profilerkit/times/test_sampling_statistics.py). Where the samples
themselves said when to stop, intervals are therefore made with three fifths of the risk of error, and cover 95 % again.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from statistics import NormalDist

__all__ = ["MedianInterval", "agree", "effective_number", "median_interval"]

#: What is left of the risk of error for an interval whose own width said when to stop; enough up to 95 %.
SHARE_OF_RISK = 0.6
#: A dependence is believed where one of two statistics lies beyond this, as each does in 1 % of independent samples.
SIGNIFICANT = NormalDist().inv_cdf(1 - 0.01)
#: Fewer samples than these are not asked whether they hang together: nothing could be seen.
FEWEST_FOR_DEPENDENCE = 8
#: Samples that say as little as fewer than these independent ones have no interval, only a range.
FEWEST_EFFECTIVE = 6
#: One of so many samples at most is taken for an interruption at each end of a series.
_SHARE_OF_INTERRUPTIONS = 20
#: Relative differences below this come from the arithmetic, not from the machine.
_ROUNDING = 1e-9
#: Longer series are summed up in at most twice as many blocks before autocorrelations are taken.
_MOST_BLOCKS = 500


@dataclass(frozen=True)
class MedianInterval:
    """Where a median lies: between ``low`` and ``high``, with the probability ``coverage``.

    ``is_range`` says that the samples are too few for the requested confidence, and that ``low`` and ``high`` are
    simply the smallest and the largest, of samples that hang together without those that stand apart. ``effective`` is
    the number of independent samples that would say as much.
    """

    low: float
    high: float
    coverage: float
    is_range: bool
    effective: float


@lru_cache(maxsize=32)
def median_interval(samples: tuple[float, ...], confidence: float, adaptive: bool) -> MedianInterval:
    """Return the interval of the median of samples, which stand in the order in which they were taken.

    Args:
        samples: At least one.
        confidence: The probability with which the interval is to hold the median.
        adaptive: Whether the samples themselves said when to stop.
    """
    number, ordered = len(samples), sorted(samples)
    rank = _rank_of_end(number, confidence, adaptive)
    if rank is None:
        return MedianInterval(ordered[0], ordered[-1], _coverage(number, 1), True, number)
    effective = effective_number(samples)
    if effective < number:
        # Fewer degrees of freedom, as in Student's distribution, because the dependence itself is only estimated.
        wider = math.sqrt(number / effective) * (1 + 1 / max(effective, 2))
        inner = (number + 1) / 2 - wider * ((number + 1) / 2 - rank)
        is_range = inner < 1 or effective < FEWEST_EFFECTIVE
        end = 0 if is_range else math.floor(inner) - 1
        low = ordered[max(end, _stand_apart(ordered[::-1]))]
        high = ordered[number - 1 - max(end, _stand_apart(ordered))]
        coverage = 1 - 2 * math.pow(0.5, effective) if is_range else _coverage(number, rank)
        return MedianInterval(low, high, coverage, is_range, effective)
    return MedianInterval(ordered[rank - 1], ordered[number - rank], _coverage(number, rank), False, number)


def _stand_apart(ordered: Sequence[float]) -> int:
    """Return how many of the last samples stand apart: further from the others than these from each other.

    At most a twentieth of them are asked about, and at least the last one.
    """
    number = len(ordered)
    most = max(1, number // _SHARE_OF_INTERRUPTIONS)
    gaps = {count: abs(ordered[-count] - ordered[-count - 1]) for count in range(1, most + 1)}
    width = {count: abs(ordered[-count - 1] - ordered[most]) for count in gaps}
    return max((count for count in gaps if gaps[count] > width[count]), default=0)


def agree(samples: Sequence[float], confidence: float, precision: float) -> bool:
    """Return whether independent samples like these would tell their median to plus or minus ``precision``, 0.02 say.

    This says when to stop. It does not ask whether the samples are alike in turn: on a machine where they are, each
    measurement would take several times as long. Its interval tells what that costs; see `median_interval`.
    """
    number, ordered = len(samples), sorted(samples)
    rank = _rank_of_end(number, confidence, adaptive=True)
    if rank is None or number < FEWEST_EFFECTIVE:
        return False
    width = ordered[number - rank] - ordered[rank - 1]
    return width <= 2 * precision * abs(ordered[number // 2] + ordered[(number - 1) // 2]) / 2


def _rank_of_end(number: int, confidence: float, adaptive: bool) -> int | None:
    """Return the rank of the lower end for independent samples; None where they are too few for the confidence."""
    if _coverage(number, 1) < confidence:
        return None
    return _rank(number, (1 - confidence) / 2 * (SHARE_OF_RISK if adaptive else 1))


def _rank(number: int, tail: float) -> int:
    """Return the largest rank r with P(Bin(number, 1/2) < r) <= tail, 1 at least."""
    if number > 1000:  # the normal approximation is exact to a sample here
        return max(math.floor(number / 2 + NormalDist().inv_cdf(tail) * math.sqrt(number) / 2), 1)
    rank, below = 0, 0.5**number
    while below <= tail:
        rank += 1
        below += math.comb(number, rank) * 0.5**number
    return max(rank, 1)


def _coverage(number: int, rank: int) -> float:
    """Return how often independent samples hold their median between the sample of a rank and its counterpart."""
    if number > 1000:
        return 1 - 2 * NormalDist().cdf((rank - number / 2) * 2 / math.sqrt(number))
    return 1 - 2 * sum(math.comb(number, below) for below in range(rank)) / math.pow(2, number)


def effective_number(samples: Sequence[float]) -> float:
    """Return how many independent samples say as much of their median as these; not more than there are."""
    number = len(samples)
    same = max(samples) - min(samples) <= _ROUNDING * abs(max(samples))
    if number < FEWEST_FOR_DEPENDENCE or same or not _hang_together(samples):
        return number
    return number / max(1.0, _samples_for_one(samples))


def _hang_together(samples: Sequence[float]) -> bool:
    number, ordered = len(samples), sorted(samples)
    ranks: list[int] = [bisect_left(ordered, sample) + bisect_right(ordered, sample) - number for sample in samples]
    total: int = sum(map(mul, ranks, ranks))
    if not total:
        return False
    lags = 4 if number >= 12 else 2
    items = [sum(map(mul, ranks, ranks[lag:])) / total + 1 / number for lag in range(1, lags + 1)]
    strongest = max(items[0] * math.sqrt(number), sum(items) * math.sqrt(number / lags))
    return bool(strongest > SIGNIFICANT)


def _samples_for_one(samples: Sequence[float]) -> float:
    """Return the sum over all lags of the autocorrelations of the signs of the deviations from the median."""
    number, ordered = len(samples), sorted(samples)
    ranks = [bisect_left(ordered, sample) + bisect_right(ordered, sample) - number for sample in samples]
    signs = [(rank > 0) - (rank < 0) for rank in ranks]
    width = max(1, number // _MOST_BLOCKS)
    blocks = [sum(signs[start : start + width]) for start in range(0, number - width + 1, width)]
    count = len(blocks)
    block_variance, total = sum(map(mul, blocks, blocks)) / count, sum(map(mul, signs, signs)) / number * width
    if not block_variance:
        return 1.0
    both, last, lag = 0.0, math.inf, 1
    while lag < count // 2:
        pair = sum(sum(map(mul, blocks, blocks[far:])) / (count - far) for far in (lag, lag + 1))
        if pair <= 0:
            break
        last = min(pair, last)
        both += last
        lag += 2
    # Every autocorrelation is too low by what one median of all takes away: the sum over all lags, over the number.
    return float((block_variance + 2 * both) / total / max(1 - 2 * (lag - 1) / count, 0.25))
