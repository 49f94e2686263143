"""Tables of a calibration: how fast products of a kind run by their shape, and traffic of a family by its bytes.

A time is ``start + work / rate``: ``start`` is the shortest time of the table, the time of a call with the least work.
Between the measured points the logarithm of the rate is interpolated by a local linear regression over the logarithms
of the sizes, in which a point counts by the share of its time that is not the start; sizes beyond the points are
replaced by the outermost measured sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profilerkit.errors import ArgumentError
from profilerkit.process.cached import cached_property

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


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: the sizes, the work (FLOPs or bytes), its seconds, and the spread of the repetitions.

    For a separate device, the seconds are the device's alone; ``host_seconds`` are the host's to hand the work over.
    """

    sizes: tuple[float, ...]
    work: float
    seconds: float
    spread: float = 0.0
    host_seconds: float = 0.0


@dataclass(frozen=True)
class EfficiencyTable:
    """The measured points of one kind of product, or family of traffic, in one dtype."""

    kind: str
    dtype: str
    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ArgumentError(f"the table of {self.kind!r} in {self.dtype} has no points")
        widths = {len(point.sizes) for point in self.points}
        numbers = [number for point in self.points for number in (*point.sizes, point.work, point.seconds)]
        if len(widths) != 1 or min(numbers) <= 0:
            raise ArgumentError(
                f"the table of {self.kind!r} in {self.dtype} is not one of points with equally many sizes above zero"
            )

    @property
    def is_of_products(self) -> bool:
        """Whether the points have the sizes of products; points of traffic have one size, the bytes."""
        return len(self.points[0].sizes) > 1

    @cached_property
    def best_rate(self) -> float:
        """The most work in a second that was measured."""
        return max(point.work / point.seconds for point in self.points)

    @cached_property
    def least_seconds(self) -> float:
        """The shortest measured time: the constant time of a call."""
        return min(point.seconds for point in self.points)

    def seconds(self, sizes: Sequence[float], work: float, peak: float) -> float:
        """Return the seconds of so much work at these sizes; never faster than ``peak``, a rate."""
        rate = math.exp(_interpolate(*self._arrays, sizes))
        return max(self.least_seconds + work / rate, work / peak)

    def find_host_seconds(self, sizes: Sequence[float]) -> float:
        """Return the host's seconds to launch the measured call with the nearest sizes, in factors of two."""
        import numpy as np

        distances = ((self._arrays[0] - np.log2(np.array(sizes, dtype=float))) ** 2).sum(axis=1)
        return self.points[int(distances.argmin())].host_seconds

    def rate_at(self, size: float) -> float:
        """Return the best rate at sizes of at least about ``size``, or the largest one; for tables with one size."""
        least = min(size, max(point.sizes[0] for point in self.points)) / 2
        return max(point.work / point.seconds for point in self.points if point.sizes[0] >= least)

    @cached_property
    def _arrays(self) -> tuple[Any, Any, Any]:
        """The logarithms of the sizes and rates of points, and the share of each point's time that is not the start."""
        import numpy as np

        work, seconds = np.array([(point.work, point.seconds) for point in self.points]).T
        shares = np.maximum(1 - self.least_seconds / seconds, _LEAST_SHARE)
        logs = np.log2(np.array([point.sizes for point in self.points], dtype=float))
        return logs, np.log(work / (seconds * shares)), shares


def _interpolate(logs: Any, targets: Any, shares: Any, sizes: Sequence[float]) -> float:
    """Return the target at some sizes by a local linear regression over the points; all but shares are logarithms."""
    import numpy as np

    at = np.clip(np.log2(np.array(sizes, dtype=float)), logs.min(axis=0), logs.max(axis=0))
    offsets = logs - at
    distances = (offsets**2).sum(axis=1) / (2 * _WIDTH**2)
    weights = np.exp(-(distances - distances.min())) * shares**2
    design = np.hstack([np.ones((len(logs), 1)), offsets])
    weighted = design * weights[:, None]
    slope_penalties = [_RIDGE * weights.sum()] * logs.shape[1]
    penalty = np.diag([_LEAST_PENALTY, *slope_penalties])
    intercept, *_ = np.linalg.solve(weighted.T @ design + penalty, weighted.T @ targets)
    near = targets[distances <= distances.min() + _NEAR]
    return float(np.clip(intercept, near.min() - _MOST_BEYOND, near.max() + _MOST_BEYOND))
