"""The peak of a recorded timeline of which parts depend on branches, and nobody knows which are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from profilerkit.trace.bounds import PeakSpread

__all__ = ["Peaks", "Stretch", "find_peaks", "measure_spread"]


class Peaks(NamedTuple):
    """The least and the most bytes that a peak may have."""

    low: int
    high: int


@dataclass(frozen=True)
class Stretch:
    """A part of a timeline, [start, end), that depends on a branch: its peak lies between ``peaks``."""

    start: int
    end: int
    peaks: Peaks
    reason: str

    def shift(self, by: int) -> Stretch:
        """Return the stretch of a timeline to which values have been added in front, or from which some are taken."""
        return replace(self, start=self.start + by, end=self.end + by)


def find_peaks(live_bytes: Sequence[int], base: int, stretches: Sequence[Stretch]) -> Peaks:
    """Return the ends of the peak of a timeline that begins with ``base`` bytes; ``stretches`` do not overlap."""
    inside = {index for stretch in stretches for index in range(stretch.start, stretch.end)}
    always = max((base, *(alive for index, alive in enumerate(live_bytes) if index not in inside)))
    return Peaks(
        low=max((always, *(stretch.peaks.low for stretch in stretches))),
        high=max((always, *(stretch.peaks.high for stretch in stretches))),
    )


def measure_spread(live_bytes: Sequence[int], base: int, stretches: Sequence[Stretch]) -> PeakSpread:
    """Return how much the peak of a timeline may differ; ``stretches`` do not overlap.

    >>> measure_spread((5, 9, 9, 4), 2, [Stretch(1, 3, Peaks(3, 12), "a condition")])
    PeakSpread(below=4, above=3, reasons=('a condition',))
    """
    peak = max((base, *live_bytes))
    low, high = find_peaks(live_bytes, base, stretches)
    reasons = dict.fromkeys(stretch.reason for stretch in stretches if stretch.peaks.high > low)
    return PeakSpread(peak - low, high - peak, tuple(reasons))
