"""Tables of a calibration: how fast products of a kind run by their shape, and traffic of a family by its bytes.

A time is ``start + work / rate``: ``start`` is the shortest time of the table, the time of a call with the least work.
`MeasuredRates` has the rate between the measured points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profilerkit.errors import ArgumentError
from profilerkit.process.cached import cached_property

if TYPE_CHECKING:
    from .measured_rates import MeasuredRates


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
        return max(self.least_seconds + work / self._rates.interpolate(sizes), work / peak)

    def find_host_seconds(self, sizes: Sequence[float]) -> float:
        """Return the host's seconds to launch the measured call with the nearest sizes, in factors of two."""
        return self.points[self._rates.find_nearest(sizes)].host_seconds

    def rate_at(self, size: float) -> float:
        """Return the best rate at sizes of at least about ``size``, or the largest one; for tables with one size."""
        least = min(size, max(point.sizes[0] for point in self.points)) / 2
        return max(point.work / point.seconds for point in self.points if point.sizes[0] >= least)

    @cached_property
    def _rates(self) -> MeasuredRates:
        """The rates of the points, without the start in their times."""
        from .measured_rates import MeasuredRates  # imports numpy

        sizes, work, seconds = zip(*((point.sizes, point.work, point.seconds) for point in self.points), strict=True)
        return MeasuredRates.build(sizes, work, seconds, self.least_seconds)
