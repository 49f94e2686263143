"""The machine's share of a night: what the models of a night have in common, by a median.

Steady models weigh most in it: a plain median brings the noise of unsteady models into the series of steady ones. Each
model weighs as the inverse of its usual change from night to night, and the three steadiest weigh the same, so that no
single model is the machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["shared_part"]

Floats = NDArray[np.float64]
#: So many of the steadiest models weigh the same.
EQUALS = 3


def shared_part(deviations: Floats) -> Floats:
    """Return for each night the weighted median over the models; nan for a night that no model was measured in.

    ``deviations`` has a row for each model: how far each night is from the model's own level, nan where it was not
    measured.

    >>> shared_part(np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [9.0, -9.0, 9.0]])).tolist()
    [0.0, 1.0, 0.0]
    """
    weights = _weights(deviations)
    order = np.argsort(deviations, axis=0)  # nan comes last
    ordered = np.take_along_axis(deviations, order, axis=0)
    heights = np.cumsum(np.where(np.isnan(ordered), 0.0, weights[order]), axis=0)
    half = (heights >= heights[-1] / 2).argmax(axis=0)
    shared: Floats = ordered[half, np.arange(deviations.shape[1])]
    return shared


def _weights(deviations: Floats) -> Floats:
    """Return the weight of each model; equal ones if none changes from night to night."""
    changes = np.array([_usual_change(row[~np.isnan(row)]) for row in deviations])
    finite = np.sort(changes[np.isfinite(changes)])
    if not len(finite):
        return np.ones(len(changes))
    least = max(float(finite[min(EQUALS, len(finite)) - 1]), float(np.finfo(float).tiny) ** 0.5)
    weights: Floats = 1.0 / np.maximum(np.where(np.isfinite(changes), changes, np.inf), least)
    return weights


def _usual_change(row: Floats) -> float:
    return float(np.median(np.abs(np.diff(row)))) if len(row) > 1 else float("inf")
