"""How many independent samples a series is worth.

Neighboring samples of a machine are often alike: another process starts and ends, or the clock of the processor changes
in steps. Such samples are autocorrelated, and n of them say as much about their median as a smaller number of
independent samples: the effective sample size. Two steps find it:

1. Is there a dependence at all? The ranks of the samples are correlated with the ranks that come 1, 2, 3 and 4 samples
   later (the lags). For independent samples each correlation has the mean -1/n and the variance 1/n. The second step
   follows only if the correlation at lag 1, or the sum of all four, is significant at 1 %. So independent samples keep
   their interval: this test widens it by 1 % on average for 100 samples, by 2 to 4 % for 30 (heavier tails, wider).
2. How strong is it? The signs of the deviations from the median are correlated in the same way, at more and more lags,
   until nothing is left (Geyer, Practical Markov Chain Monte Carlo, 1992). The sum of these autocorrelations is the
   number of samples that say as much as one independent sample.

A change that is slower than about a tenth of the measurement cannot be known from its samples.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import mul
from statistics import NormalDist
from typing import NamedTuple

__all__ = ["count_independent"]

#: Samples are dependent if one of two statistics is beyond this: each of the two is in 1 % of independent samples.
SIGNIFICANT = NormalDist().inv_cdf(1 - 0.01)
#: Fewer samples than these are taken for independent: no dependence could be seen in them.
FEWEST_FOR_DEPENDENCE = 8
#: The lags whose correlations are added up in the test: from 1 to this one ...
_LAGS = 4
#: ... or to this one in a series of fewer samples, because such a series has few pairs of samples at large lags.
_LAGS_OF_FEW, _FEWEST_FOR_LAGS = 2, 12
#: Relative differences below this come from the arithmetic, not from the machine.
_ROUNDING = 1e-9
#: Longer series are added up in blocks, at most twice as many as these, before the autocorrelations are taken. Without
#: them the time would grow with the square of the samples.
_MOST_BLOCKS = 500
#: The correction for the median divides by no less than this: if samples depend on each other over the whole series,
#: the divisor would be nearly zero, and the result would be arbitrarily large.
_LEAST_CORRECTION = 0.25


def count_independent(samples: Sequence[float]) -> float:
    """Return the effective sample size: how many independent samples say as much about their median as these.

    It is the number of samples if no dependence is seen, and never more; it is 1 at least. ``samples`` are in the order
    in which they were taken.
    """
    number = len(samples)
    are_equal = max(samples) - min(samples) <= _ROUNDING * abs(max(samples))
    if number < FEWEST_FOR_DEPENDENCE or are_equal:
        return number
    ranks = _center_ranks(samples)
    if not _are_dependent(ranks):
        return number
    return max(1.0, number / max(1.0, _sum_autocorrelations(ranks)))


def _center_ranks(samples: Sequence[float]) -> list[int]:
    """Return twice the rank of each sample, shifted so that all add up to zero; equal samples have equal ranks.

    Ranks in place of seconds, because one interruption would dominate every correlation of seconds. Their sign is that
    of the deviation from the median.

    >>> _center_ranks([5.0, 1.0, 9.0])
    [0, -2, 2]
    """
    ordered = sorted(samples)
    number = len(samples)
    return [bisect_left(ordered, sample) + bisect_right(ordered, sample) - number for sample in samples]


def _are_dependent(ranks: Sequence[int]) -> bool:
    """Return whether ranks are correlated with the ranks after them, more than independent ranks are by chance."""
    number = len(ranks)
    variance = _multiply(ranks, ranks)
    if not variance:
        return False
    lags = _LAGS if number >= _FEWEST_FOR_LAGS else _LAGS_OF_FEW
    # Less their mean in independent samples, -1/n, so that they scatter around zero.
    correlations = [_multiply(ranks, ranks[lag:]) / variance + 1 / number for lag in range(1, lags + 1)]
    # In standard deviations: sqrt(1/n) for one correlation, sqrt(lags/n) for their sum.
    at_first_lag = correlations[0] * math.sqrt(number)
    at_all_lags = sum(correlations) * math.sqrt(number / lags)
    return max(at_first_lag, at_all_lags) > SIGNIFICANT


def _sum_autocorrelations(ranks: Sequence[int]) -> float:
    """Return the sum of the autocorrelations of the signs of ranks over all lags, negative, zero and positive.

    It is 1 for independent samples, and more if neighbors are alike. Long series are added up in blocks first: the sums
    of the blocks have nearly the same sum of autocorrelations.
    """
    signs = [(rank > 0) - (rank < 0) for rank in ranks]
    number = len(signs)
    width = max(1, number // _MOST_BLOCKS)
    blocks = [sum(signs[start : start + width]) for start in range(0, number - width + 1, width)]
    block_variance = _compute_autocovariance(blocks, lag=0)
    if not block_variance:
        return 1.0
    covariances = _sum_autocovariances(blocks)
    independent_variance = width * _compute_autocovariance(signs, lag=0)  # of a block of independent samples
    autocorrelations = (block_variance + 2 * covariances.total) / independent_variance
    return autocorrelations / _correct_for_median(covariances.lags, len(blocks))


class _LagSum(NamedTuple):
    """A sum over lags from 1, and the number of these lags."""

    total: float
    lags: int


def _sum_autocovariances(blocks: Sequence[int]) -> _LagSum:
    """Return the sum of the autocovariances at lags from 1.

    Two neighboring lags are added to a pair. The pairs of a stationary series are positive and become smaller; the
    first pair that is not positive is noise and ends the sum, and a pair that is larger than the pair before it counts
    as much as the pair before.
    """
    total, smallest_pair, lag = 0.0, math.inf, 1
    while lag < len(blocks) // 2:
        pair = _compute_autocovariance(blocks, lag) + _compute_autocovariance(blocks, lag + 1)
        if pair <= 0:
            break
        smallest_pair = min(pair, smallest_pair)
        total += smallest_pair
        lag += 2
    return _LagSum(total, lag - 1)


def _compute_autocovariance(values: Sequence[int], lag: int) -> float:
    """Return the mean product of values with the values so many places later; the mean of the values is 0."""
    return _multiply(values, values[lag:]) / (len(values) - lag)


def _multiply(values: Sequence[int], others: Sequence[int]) -> int:
    """Return the sum of the products of values, one by one, up to the end of the shorter list."""
    total: int = sum(map(mul, values, others))
    return total


def _correct_for_median(lags: int, blocks: int) -> float:
    """Return the divisor of an estimated sum of autocorrelations, 1 or less.

    The signs are signs of deviations from the median of the same samples, because the true median is unknown. This
    subtracts from each autocorrelation the sum of all of them, divided by the number of blocks: at the lags on both
    sides of zero together the share ``2 * lags / blocks`` of the sum is missing.
    """
    return max(1 - 2 * lags / blocks, _LEAST_CORRECTION)
