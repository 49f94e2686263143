"""Steps in a series of times: where the level changed, and how likely a series without a step looks like that.

Change points are found by binary segmentation with the least-squares cost (Scott and Knott 1974): the best split of the
series, then the best split of each part. A p-value is for the largest gain over all splits, so that the search for the
best one is accounted for. It is from a permutation test, or, if consecutive nights are alike (`nights`), from simulated
noise with the same correlation, a first-order autoregression. ``benchmarks/regressions.py`` measures false alarms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .nights import Floats, clip, estimate_correlation

#: A step needs this many nights on each side.
MIN_SIZE = 3
#: The shortest series in which a step is looked for.
MIN_NIGHTS = 8
#: A part is searched for further steps if its own step has at most this p-value.
_LEVEL = 0.05
#: Series are drawn until so many gain as much as the series itself, or so many are drawn (Besag and Clifford 1991).
_EXCEEDING, _DRAWN = 10, 50_000
#: How many series are drawn first, because most p-values need no more, and then at once.
_FIRST, _AT_ONCE = 50, 500
#: The relative tolerance for a permutation with the gain of the series: sums in another order are rounded differently.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Split:
    """A candidate for a step: the first night after it, its p-value, and the medians of the parts on both sides."""

    index: int
    p: float
    before: float
    after: float


def find_splits(
    values: Sequence[float] | Floats, seed: int = 0, history: Sequence[float] | Floats | None = None
) -> list[Split]:
    """Return the candidates for steps in a series, in order; the best candidate is always among them.

    The p-value of a further step inside of a part is at least the p-value of the step that made the part. A series of
    fewer than `MIN_NIGHTS` values, or of equal values, has no candidates. ``history`` is the series with the nights
    before it, by which the correlation of consecutive nights is estimated.

    Raises `ValueError` for a value that is no finite number: no order of such nights gains as much.
    """
    if not np.isfinite(np.asarray(values, float)).all():
        raise ValueError("a series has a value that is not finite: leave this night out")
    series = clip(np.asarray(values, float))
    generator = np.random.default_rng(seed)
    correlation = estimate_correlation(values if history is None else history)
    cuts: dict[int, float] = {}
    parts = [(0, len(series), 0.0)]  # the first night, the end, and the least p-value of a step inside
    while parts:
        start, end, least_p = parts.pop()
        part = series[start:end]
        if len(part) < MIN_NIGHTS or not np.ptp(part):
            continue
        index = start + MIN_SIZE + int(_compute_gains(part - part.mean()).argmax())  # the first night after the step
        p = max(least_p, _estimate_p(part, generator, correlation))
        if p <= _LEVEL:
            parts += [(start, index, p), (index, end, p)]
        if p <= _LEVEL or len(part) == len(series):  # the best split of the whole is a candidate in any case
            cuts[index] = p
    ends = [0, *sorted(cuts), len(series)]
    levels = [float(np.median(values[start:end])) for start, end in pairwise(ends) if end]
    return [Split(cut, cuts[cut], *levels[part : part + 2]) for part, cut in enumerate(sorted(cuts))]


def control_rate(p_values: Sequence[float]) -> list[float]:
    """Return for each p-value the rate of false discoveries at which it counts, by Benjamini and Hochberg (1995).

    >>> control_rate([0.01, 0.02, 0.9])
    [0.03, 0.03, 0.9]
    """
    if not p_values:  # counts are compared without SciPy, too
        return []
    from scipy.stats import false_discovery_control

    return [round(float(q), 12) for q in false_discovery_control(p_values)]


def _estimate_p(part: Floats, generator: np.random.Generator, correlation: float) -> float:
    """Return the p-value of the best split of a part, among series without a step that are drawn."""
    share = float(_compute_shares(part)) * (1 - _ROUNDING)
    exceeding, drawn, size = 0, 0, _FIRST
    while exceeding < _EXCEEDING and drawn < _DRAWN:
        rows = _draw_series(part, size, correlation, generator)
        exceeding += int((_compute_shares(rows) >= share).sum())
        drawn += size
        size = _AT_ONCE
    return (exceeding + 1) / (drawn + 1)


def _draw_series(part: Floats, size: int, correlation: float, generator: np.random.Generator) -> Floats:
    """Return series without a step as rows: permutations of a part, or Gaussian noise with a correlation."""
    if not correlation:
        return generator.permuted(np.broadcast_to(part, (size, len(part))), axis=1)
    from scipy.signal import lfilter

    noise = generator.standard_normal((size, len(part)))
    noise[:, 0] /= np.sqrt(1.0 - correlation**2)  # the first value has the spread of all
    rows: Floats = lfilter([1.0], [1.0, -correlation], noise, axis=1)
    return rows


def _compute_shares(rows: Floats) -> Floats:
    """Return for each row the largest gain of a split, as a share of the row's least-squares cost."""
    centered = rows - rows.mean(axis=-1, keepdims=True)
    shares: Floats = _compute_gains(centered).max(axis=-1) / (centered**2).sum(axis=-1)
    return shares


def _compute_gains(centered: Floats) -> Floats:
    """Return the gain of each split: the decrease of the least-squares cost of a row whose mean is zero.

    For parts of k and n - k values, with the sum S of the first part, the gain is S squared * n / (k (n - k)).
    """
    count = centered.shape[-1]
    sums = np.cumsum(centered, axis=-1)[..., MIN_SIZE - 1 : count - MIN_SIZE]
    sizes = np.arange(MIN_SIZE, count - MIN_SIZE + 1)
    gains: Floats = sums**2 * count / (sizes * (count - sizes))
    return gains
