"""Tables of a calibration: how fast products of a kind run by their shape, and traffic of a family by its bytes.

A time is ``start + work / rate``: ``start`` is the shortest time of the table, the time of a call with the least work.
Between the measured points the rate is a local linear regression over the logarithms of sizes and rates. A point counts
by the share of its time that is not the start, and by how near its sizes are. Sizes beyond the points are replaced by
the outermost measured sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
        if len(widths) != 1 or 0 in widths or not all(0 < number < math.inf for number in numbers):
            raise ArgumentError(
                f"the table of {self.kind!r} in {self.dtype} is not one of points with equally many sizes, and with "
                "finite sizes, work and seconds above zero"
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
        return max(self.least_seconds + work / self._interpolate_rate(sizes), work / peak)

    def find_host_seconds(self, sizes: Sequence[float]) -> float:
        """Return the host's seconds to launch the measured call with the nearest sizes, in factors of two."""
        import numpy as np  # only here and below: a device without a calibration needs none

        offsets = self._logarithms.sizes - np.log2(np.array(sizes, dtype=float))
        return self.points[int((offsets**2).sum(axis=1).argmin())].host_seconds

    def rate_at(self, size: float) -> float:
        """Return the best rate at sizes of at least about ``size``, or the largest one; for tables with one size."""
        least = min(size, max(point.sizes[0] for point in self.points)) / 2
        return max(point.work / point.seconds for point in self.points if point.sizes[0] >= least)

    @cached_property
    def _logarithms(self) -> _Logarithms:
        """The points as arrays, without the start in their times."""
        import numpy as np

        sizes, work, seconds = zip(*((point.sizes, point.work, point.seconds) for point in self.points), strict=True)
        shares = np.maximum(1 - self.least_seconds / np.array(seconds), _LEAST_SHARE)
        rates = np.log(np.array(work) / (np.array(seconds) * shares))
        return _Logarithms(np.log2(np.array(sizes, dtype=float)), rates, shares)

    def _interpolate_rate(self, sizes: Sequence[float]) -> float:
        """Return the rate at some sizes."""
        import numpy as np

        points = self._logarithms
        at = np.clip(np.log2(np.array(sizes, dtype=float)), points.sizes.min(axis=0), points.sizes.max(axis=0))
        offsets = points.sizes - at
        distances = (offsets**2).sum(axis=1) / (2 * _WIDTH**2)
        weights = np.exp(-(distances - distances.min())) * points.shares**2
        # The weighted regression over the offsets: its intercept is the rate at the sizes.
        design = np.hstack([np.ones((len(offsets), 1)), offsets])
        weighted = design * weights[:, None]
        penalty = np.diag([_LEAST_PENALTY, *[_RIDGE * weights.sum()] * offsets.shape[1]])
        intercept, *_ = np.linalg.solve(weighted.T @ design + penalty, weighted.T @ points.rates)
        near = points.rates[distances <= distances.min() + _NEAR]
        return math.exp(np.clip(float(intercept), near.min() - _MOST_BEYOND, near.max() + _MOST_BEYOND))


class _Logarithms(NamedTuple):
    """The measured points of a table as arrays of numpy."""

    #: To base 2: (points, sizes).
    sizes: Any
    #: Natural, in work for a second: (points,).
    rates: Any
    #: The share of each point's time that is not the start: (points,).
    shares: Any
