"""Steps in a series of times: where the level changed, and how likely a series without a step looks like that.

Change points are found by binary segmentation with the least-squares cost (Scott and Knott 1974). Each p-value is for
the largest gain over all split points, so that the search for the best split is accounted for. If nights are
independent of each other, the p-value is from a permutation test. If consecutive nights are alike (the machine drifts),
it is from simulated noise with the same correlation, a first-order autoregression. ``benchmarks/regressions.py``
measures the remaining false alarms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: A step needs this many nights on each side.
MIN_SIZE = 3
#: The shortest series in which a step is looked for.
MIN_NIGHTS = 8
#: A part is searched for further steps if its own step has at most this p-value.
_LEVEL = 0.05
#: Permutations end after so many that gain as much as the series itself, or so many in all (Besag and Clifford 1991).
_EXCEEDING, _PERMUTATIONS = 10, 50_000
#: How many permutations are drawn at once: few at first, because most series need no more.
_FIRST, _AT_ONCE = 50, 500
#: The relative tolerance for a permutation with the gain of the series: sums in another order are rounded differently.
_ROUNDING = 1e-9
#: Single nights are clipped at so many deviations (1.4826 times the median absolute deviation) from the median.
_CLIPPED = 6.0
#: Nights so far apart, from the least to the most, are taken as independent of each other.
_FAR = (8, 20)
#: The largest correlation of consecutive nights that is used.
_MOST_CORRELATION = 0.9
#: A correlation is significant if it exceeds this number, divided by the square root of the number of nights.
_TOLD = 4.0
#: A plain step is so many times the usual change from night to night, and a series has at most so many of them.
_PLAIN, _FEW = 4.0, 3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """A candidate for a step: the first night after it, its p-value, and the medians of the parts on both sides."""

    index: int
    p: float
    before: float
    after: float


class _Part(NamedTuple):
    """The nights of a part of a series, and the least p-value that a step inside of it may have."""

    start: int
    end: int
    least_p: float


def find_splits(
    values: Sequence[float] | Floats, seed: int = 0, history: Sequence[float] | Floats | None = None
) -> list[Split]:
    """Return the candidates for steps in a series, in order; the best candidate is always among them.

    The p-value of a further step inside of a part is at least the p-value of the step that made the part. A series of
    fewer than `MIN_NIGHTS` values, or of equal values, has no candidates. ``history`` is the series with the nights
    before it, by which the correlation of consecutive nights is estimated.
    """
    series = _clip(np.asarray(values, float))
    if len(series) < MIN_NIGHTS or not np.ptp(series):
        return []
    generator = np.random.default_rng(seed)
    correlation = estimate_correlation(values if history is None else history)
    cuts: dict[int, float] = {}
    parts = [_Part(0, len(series), 0.0)]
    while parts:
        start, end, least_p = parts.pop()
        part = series[start:end]
        if len(part) < MIN_NIGHTS or not np.ptp(part):
            continue
        index = start + MIN_SIZE + int(_compute_gains(part - part.mean()).argmax())  # the first night after the step
        p = max(least_p, _estimate_p(part, generator, correlation))
        is_whole = len(part) == len(series)  # the best split of the whole series is a candidate, whatever its p-value
        if is_whole or p <= _LEVEL:
            cuts[index] = p
        if p <= _LEVEL:
            parts += [_Part(start, index, p), _Part(index, end, p)]
    ends = [0, *sorted(cuts), len(series)]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(ends)]
    return [Split(cut, cuts[cut], levels[i], levels[i + 1]) for i, cut in enumerate(ends[1:-1])]


def control_rate(p_values: Sequence[float]) -> list[float]:
    """Return for each p-value the rate of false discoveries at which it counts, by Benjamini and Hochberg (1995).

    >>> control_rate([0.01, 0.02, 0.9])
    [0.03, 0.03, 0.9]
    """
    if not p_values:  # counts are compared without SciPy, too
        return []
    from scipy.stats import false_discovery_control

    return [round(float(q), 12) for q in false_discovery_control(p_values)]


def estimate_correlation(values: Sequence[float] | Floats) -> float:
    """Return the correlation of consecutive nights; 0.0 if it is not significant, at most 0.9.

    It is estimated by medians of differences between nights, one and about two weeks apart, after the plainest steps
    are taken out, which would pass for correlation in a short series.
    """
    series = _clip(_remove_plain_steps(np.asarray(values, float)))
    count = len(series)
    if count < 2 * _FAR[0]:
        return 0.0
    distances = range(_FAR[0], min(_FAR[1], count // 2) + 1)
    far = float(np.median([find_usual_distance(series, nights) for nights in distances]))
    near = find_usual_distance(series, 1)
    correlation = 1.0 - (near / far) ** 2 if far else 0.0
    return min(correlation, _MOST_CORRELATION) if correlation > _TOLD / np.sqrt(count) else 0.0


def _remove_plain_steps(series: Floats) -> Floats:
    """Return the distances to the level of each part between the plainest steps, which are far beyond the usual change.

    A step is found by three nights on each side, so that a single odd night is no step. Few steps are taken out,
    because a machine whose speed changes again and again has many.
    """
    if len(series) < 2 * MIN_SIZE:
        return series
    levels = np.median(np.lib.stride_tricks.sliding_window_view(series, MIN_SIZE), axis=1)
    steps = levels[MIN_SIZE:] - levels[:-MIN_SIZE]
    least = _PLAIN * find_usual_distance(series, 1)
    ends = {0, len(series)}
    for _ in range(_FEW):
        largest = int(np.abs(steps).argmax())
        if abs(steps[largest]) <= least:
            break
        ends.add(largest + MIN_SIZE)
        steps[max(0, largest - MIN_SIZE + 1) : largest + MIN_SIZE] = 0.0  # the same step, seen from nights beside it
    parts = [series[start:end] for start, end in pairwise(sorted(ends))]
    return np.concatenate([part - np.median(part) for part in parts])


def find_usual_distance(series: Floats, nights: int) -> float:
    """Return the median distance of two values that are so many nights apart."""
    return float(np.median(np.abs(series[nights:] - series[:-nights])))


def _clip(series: Floats) -> Floats:
    center = np.median(series) if len(series) else 0.0
    deviation = 1.4826 * float(np.median(np.abs(series - center))) if len(series) else 0.0
    if not deviation:
        return series
    return np.clip(series, center - _CLIPPED * deviation, center + _CLIPPED * deviation)


def _compute_gains(centered: Floats) -> Floats:
    """Return the gain of each split: the decrease of the least-squares cost of a row whose mean is zero.

    For parts of k and n - k values, with the sum S of the first part, the gain is S squared * n / (k (n - k)).
    """
    count = centered.shape[-1]
    sums = np.cumsum(centered, axis=-1)[..., MIN_SIZE - 1 : count - MIN_SIZE]
    sizes = np.arange(MIN_SIZE, count - MIN_SIZE + 1)
    gains: Floats = sums**2 * count / (sizes * (count - sizes))
    return gains


def _compute_shares(rows: Floats) -> Floats:
    """Return for each row the largest gain of a split, as a share of the row's least-squares cost."""
    centered = rows - rows.mean(axis=-1, keepdims=True)
    shares: Floats = _compute_gains(centered).max(axis=-1) / (centered**2).sum(axis=-1)
    return shares


def _draw_noise(size: int, count: int, correlation: float, generator: np.random.Generator) -> Floats:
    """Return rows of Gaussian noise in which consecutive values have a correlation."""
    from scipy.signal import lfilter

    noise = generator.standard_normal((size, count))
    noise[:, 0] /= np.sqrt(1.0 - correlation**2)  # the first value has the spread of all
    rows: Floats = lfilter([1.0], [1.0, -correlation], noise, axis=1)
    return rows


def _estimate_p(part: Floats, generator: np.random.Generator, correlation: float) -> float:
    """Return the p-value of the best split of a part, among series without a step that are drawn."""
    share = float(_compute_shares(part)) * (1 - _ROUNDING)
    exceeding = drawn = 0
    size = _FIRST
    while exceeding < _EXCEEDING and drawn < _PERMUTATIONS:
        if correlation:
            rows = _draw_noise(size, len(part), correlation, generator)
        else:
            rows = generator.permuted(np.broadcast_to(part, (size, len(part))), axis=1)
        exceeding += int((_compute_shares(rows) >= share).sum())
        drawn += size
        size = _AT_ONCE
    return (exceeding + 1) / (drawn + 1)
