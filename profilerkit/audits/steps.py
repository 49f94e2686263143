"""Steps in a series of times: where the level changed, and how likely a series without a step looks like that.

`ruptures` (Truong, Oudre, Vayatis 2020) has the change points: binary segmentation with the least-squares cost. The
p-value of each is that of a permutation test of the largest gain over all split points, so that having searched for the
best one is accounted for. It is exact for nights that are exchangeable; slow drifts of a machine are not, and what that
costs is measured by ``benchmarks/regressions.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["MIN_NIGHTS", "Split", "controlled", "splits_of"]

#: A step needs this many nights on each side.
MIN_SIZE = 3
#: The shortest series in which a step is looked for.
MIN_NIGHTS = 8
#: A part is searched for further steps if its own step has at most this p-value.
_LEVEL = 0.05
#: Permutations end after so many that gain as much as the series itself, or so many in all (Besag and Clifford 1991).
_EXCEEDING, _PERMUTATIONS, _AT_ONCE = 10, 50_000, 500
#: Single nights are clipped at so many deviations (1.4826 times the median absolute deviation) from the median.
_CLIPPED = 6.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """A candidate for a step: the first night after it, its p-value, and the medians of the parts on both sides."""

    index: int
    p: float
    before: float
    after: float


def splits_of(values: Sequence[float] | Floats, seed: int = 0) -> list[Split]:
    """Return the candidates for steps in a series, in order; the best one is always among them.

    The p-value of a further step inside of a part is at least that of the step that made the part. A series of fewer
    than `MIN_NIGHTS` values, or of equal ones, has none.
    """
    series = _clipped(np.asarray(values, float))
    if len(series) < MIN_NIGHTS or not np.ptp(series):
        return []
    generator = np.random.default_rng(seed)
    cuts: dict[int, float] = {}
    parts = [(0, len(series), 0.0)]
    while parts:
        start, end, above = parts.pop()
        part = series[start:end]
        if len(part) < MIN_NIGHTS or not np.ptp(part):
            continue
        index = start + _best_split(part)
        p = max(above, _p_value(part, generator))
        if above and p > _LEVEL:
            continue
        cuts[index] = p
        if p <= _LEVEL:
            parts += [(start, index, p), (index, end, p)]
    ends = [0, *sorted(cuts), len(series)]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(ends)]
    return [Split(cut, cuts[cut], levels[i], levels[i + 1]) for i, cut in enumerate(ends[1:-1])]


def controlled(p_values: Sequence[float]) -> list[float]:
    """Return for each p-value the rate of false discoveries at which it counts, by Benjamini and Hochberg (1995).

    >>> controlled([0.01, 0.02, 0.9])
    [0.03, 0.03, 0.9]
    """
    from scipy.stats import false_discovery_control

    return [] if not p_values else [round(float(q), 12) for q in false_discovery_control(p_values)]


def _clipped(series: Floats) -> Floats:
    center = np.median(series) if len(series) else 0.0
    deviation = 1.4826 * float(np.median(np.abs(series - center))) if len(series) else 0.0
    if not deviation:
        return series
    return np.clip(series, center - _CLIPPED * deviation, center + _CLIPPED * deviation)


def _best_split(part: Floats) -> int:
    import ruptures

    search = ruptures.Binseg(model="l2", min_size=MIN_SIZE, jump=1).fit(part)
    return int(search.predict(n_bkps=1)[0])


def _gains(rows: Floats) -> Floats:
    """Return for each row the largest gain of the least-squares cost by one split."""
    count = rows.shape[-1]
    sums = np.cumsum(rows - rows.mean(axis=-1, keepdims=True), axis=-1)[..., MIN_SIZE - 1 : count - MIN_SIZE]
    sizes = np.arange(MIN_SIZE, count - MIN_SIZE + 1)
    gains: Floats = (sums**2 * count / (sizes * (count - sizes))).max(axis=-1)
    return gains


def _p_value(part: Floats, generator: np.random.Generator) -> float:
    """Return the p-value of the best split of a part by permutations."""
    gain = float(_gains(part)) * (1 - 1e-9)
    exceeding = drawn = 0
    size = 50
    while exceeding < _EXCEEDING and drawn < _PERMUTATIONS:
        rows = generator.permuted(np.broadcast_to(part, (size, len(part))), axis=1)
        exceeding += int((_gains(rows) >= gain).sum())
        drawn += size
        size = _AT_ONCE
    return (exceeding + 1) / (drawn + 1)
