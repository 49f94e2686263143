"""The machine's share of a night: the change of times that all models have in common."""

from __future__ import annotations

import numpy as np

from .steps import Floats, find_usual_distance

__all__ = ["find_share"]

#: So many of the steadiest models weigh the same.
EQUALS = 3
#: The least change: a change of zero would have an infinite weight.
_LEAST_CHANGE = float(np.finfo(float).tiny) ** 0.5


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
    nights = np.arange(deviations.shape[1])
    share: Floats = ordered[first_beyond_half, nights]
    return share


def _weigh(deviations: Floats) -> Floats:
    """Return the weight of each model; equal weights if no model changes from night to night."""
    rows = [row[~np.isnan(row)] for row in deviations]
    changes = np.array([find_usual_distance(row, 1) if len(row) > 1 else np.inf for row in rows])
    finite = np.sort(changes[np.isfinite(changes)])
    if not len(finite):
        return np.ones(len(changes))
    of_steadiest = float(finite[min(EQUALS, len(finite)) - 1])  # of the last model with the same weight
    least = max(of_steadiest, _LEAST_CHANGE)
    weights: Floats = 1.0 / np.maximum(changes, least)
    return weights
