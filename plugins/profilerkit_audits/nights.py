"""What the nights of a series share: with the nights before, as a machine drifts, and with all models of a night."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Single nights are clipped at so many deviations (1.4826 times the median absolute deviation) from the median.
_CLIPPED = 6.0
#: Nights that are at least so far apart, and at most, are taken as independent of each other.
_LEAST_FAR, _MOST_FAR = 8, 20
#: The largest correlation of consecutive nights that is used.
_MOST_CORRELATION = 0.9
#: A correlation is significant if it exceeds this number, divided by the square root of the number of nights.
_SIGNIFICANT = 4.0
#: A plain step is so many times the usual change from night to night, and holds for so many nights on each side.
_PLAIN, _HELD = 4.0, 3
#: How many plain steps are taken out of a series: a machine whose speed changes again and again has more.
_TAKEN_OUT = 3
#: So many of the steadiest models weigh the same.
EQUALS = 3
#: The least change of a model: a change of zero would have an infinite weight.
_LEAST_CHANGE = float(np.finfo(float).tiny) ** 0.5


def clip(series: Floats) -> Floats:
    """Return a series without its excesses: a single odd night weighs no more than an unusual one."""
    if not len(series):
        return series
    center = np.median(series)
    deviation = 1.4826 * float(np.median(np.abs(series - center)))
    return np.clip(series, center - _CLIPPED * deviation, center + _CLIPPED * deviation) if deviation else series


def find_usual_distance(series: Floats, nights: int) -> float:
    """Return the median distance of two values that are so many nights apart."""
    return float(np.median(np.abs(series[nights:] - series[:-nights])))


# With the nights before -----------------------------------------------------------------------------------------------


def estimate_correlation(values: Sequence[float] | Floats) -> float:
    """Return the correlation of consecutive nights; 0.0 if it is not significant, at most 0.9.

    It is estimated by medians of differences between nights, one and about two weeks apart, after the plainest steps
    are taken out, which would pass for correlation in a short series.
    """
    series = clip(_remove_plain_steps(np.asarray(values, float)))
    if len(series) < 2 * _LEAST_FAR:
        return 0.0
    distances = range(_LEAST_FAR, min(_MOST_FAR, len(series) // 2) + 1)
    far = float(np.median([find_usual_distance(series, nights) for nights in distances]))
    correlation = 1.0 - (find_usual_distance(series, 1) / far) ** 2 if far else 0.0
    is_significant = correlation > _SIGNIFICANT / np.sqrt(len(series))
    return min(correlation, _MOST_CORRELATION) if is_significant else 0.0


def _remove_plain_steps(series: Floats) -> Floats:
    """Return the distances to the level of each part between the plainest steps, which are far beyond usual changes.

    A step is found by three nights on each side, so that a single odd night is no step.
    """
    if len(series) < 2 * _HELD:
        return series
    levels = np.median(np.lib.stride_tricks.sliding_window_view(series, _HELD), axis=1)
    steps = np.abs(levels[_HELD:] - levels[:-_HELD])
    least = _PLAIN * find_usual_distance(series, 1)
    ends = {0, len(series)}
    for _ in range(_TAKEN_OUT):
        largest = int(steps.argmax())
        if steps[largest] <= least:
            break
        ends.add(largest + _HELD)
        steps[max(0, largest - _HELD + 1) : largest + _HELD] = 0.0  # the same step, seen from nights beside it
    parts = [series[start:end] for start, end in pairwise(sorted(ends))]
    return np.concatenate([part - np.median(part) for part in parts])


# With all models of a night -------------------------------------------------------------------------------------------


def find_share(deviations: Floats) -> Floats:
    """Return the common change of the models in each night: the weighted median; nan for a night without models.

    ``deviations`` has a row for each model: the distance of each night from the model's own level, nan if the model was
    not measured. Steady models weigh most, because a plain median brings the noise of unsteady models into the series
    of steady models. The weight of a model is the inverse of its usual change from night to night, and the three
    steadiest weigh the same, so that no single model stands for the machine.

    >>> find_share(np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [9.0, -9.0, 9.0]])).tolist()
    [0.0, 1.0, 0.0]
    """
    weights = _weigh(deviations)
    order = np.argsort(deviations, axis=0)  # of the models in each night; nan comes last
    ordered = np.take_along_axis(deviations, order, axis=0)
    weights_up_to = np.cumsum(np.where(np.isnan(ordered), 0.0, weights[order]), axis=0)
    first_beyond_half = (weights_up_to >= weights_up_to[-1] / 2).argmax(axis=0)
    share: Floats = ordered[first_beyond_half, np.arange(deviations.shape[1])]
    return share


def _weigh(deviations: Floats) -> Floats:
    """Return the weight of each model; equal weights if no model changes from night to night."""
    rows = [row[~np.isnan(row)] for row in deviations]
    changes = np.array([find_usual_distance(row, 1) if len(row) > 1 else np.inf for row in rows])
    ordered = np.sort(changes[np.isfinite(changes)])
    if not len(ordered):
        return np.ones(len(changes))
    of_steadiest = float(ordered[min(EQUALS, len(ordered)) - 1])  # of the last model with the same weight
    weights: Floats = 1.0 / np.maximum(changes, max(of_steadiest, _LEAST_CHANGE))
    return weights
