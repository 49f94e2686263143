"""The rate at sizes between measured ones: a local linear regression over the logarithms of sizes and rates.

A time is ``start + work / rate``. A point counts by the share of its time that is not the start, and by how near its
sizes are. Sizes beyond the points are replaced by the outermost measured sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: The width of the regression's weights, in factors of two of a size.
_WIDTH = 1.0
#: How far slopes are drawn to zero.
_RIDGE = 0.3
#: The least share of a time that counts as work.
_LEAST_SHARE = 0.05
#: Points that weigh at least 1 / e ** 8 of the nearest one bound the result: it lies beyond them by twice at the most.
_NEAR, _MOST_BEYOND = 8.0, 0.7
#: A penalty of the intercept that changes nothing, and lets the equations of few points be solved.
_LEAST_PENALTY = 1e-9


class MeasuredRates(NamedTuple):
    """The rates of measured points, as arrays with a row for each point.

    Attributes:
        log_sizes: The logarithms to base 2 of the sizes: (points, sizes).
        log_rates: The natural logarithms of the rates, in work for a second: (points,).
        shares: The share of each point's time that is not the start: (points,).
    """

    log_sizes: Any
    log_rates: Any
    shares: Any

    @classmethod
    def build(
        cls, sizes: Sequence[Sequence[float]], work: Sequence[float], seconds: Sequence[float], start: float
    ) -> MeasuredRates:
        """Return the rates of points, given the sizes, the work and the seconds of each, and the seconds of a start."""
        shares = np.maximum(1 - start / np.array(seconds), _LEAST_SHARE)
        log_sizes = np.log2(np.array(sizes, dtype=float))
        return cls(log_sizes, np.log(np.array(work) / (np.array(seconds) * shares)), shares)

    def find_nearest(self, sizes: Sequence[float]) -> int:
        """Return the index of the point with the nearest sizes, in factors of two."""
        offsets = self.log_sizes - np.log2(np.array(sizes, dtype=float))
        return int((offsets**2).sum(axis=1).argmin())

    def interpolate(self, sizes: Sequence[float]) -> float:
        """Return the rate at some sizes."""
        at = np.clip(np.log2(np.array(sizes, dtype=float)), self.log_sizes.min(axis=0), self.log_sizes.max(axis=0))
        offsets = self.log_sizes - at
        distances = (offsets**2).sum(axis=1) / (2 * _WIDTH**2)
        log_rate = self._fit(offsets, np.exp(-(distances - distances.min())) * self.shares**2)
        near = self.log_rates[distances <= distances.min() + _NEAR]
        return math.exp(np.clip(log_rate, near.min() - _MOST_BEYOND, near.max() + _MOST_BEYOND))

    def _fit(self, offsets: Any, weights: Any) -> float:
        """Return the logarithm of the rate at offset 0, by a weighted linear regression over the offsets."""
        design = np.hstack([np.ones((len(offsets), 1)), offsets])
        weighted = design * weights[:, None]
        slope_penalties = [_RIDGE * weights.sum()] * offsets.shape[1]
        penalty = np.diag([_LEAST_PENALTY, *slope_penalties])
        intercept, *_ = np.linalg.solve(weighted.T @ design + penalty, weighted.T @ self.log_rates)
        return float(intercept)
