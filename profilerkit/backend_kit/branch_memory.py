"""How much the peak of the bytes alive depends on branches of which nobody knows which is taken.

One branch of each condition is counted, and the others are put in its place one after the other. A part of the timeline
that depends on a branch is a *window*, in which the peak lies between two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..trace.bounds import PeakSpread

__all__ = ["Fork", "Side", "Window", "peak_ends", "peak_spread", "spread_of_forks"]

#: A timeline is worked out anew for each side of a fork; beyond so many operators in all of them, nothing is said.
_MOST_OPERATORS = 200_000

#: Ranges of operators, each from its first one to the one behind its last.
Spans = Sequence[tuple[int, int]]
#: Returns the bytes alive while each operator runs, of operators and the ranges of them that run more than once.
Timeline = Callable[[Sequence[Any], Spans], Sequence[int]]


@dataclass(frozen=True)
class Window:
    """A part of a timeline, [start, end), that depends on a branch: its peak lies between ``low`` and ``high``."""

    start: int
    end: int
    low: int
    high: int
    reason: str

    def shift(self, by: int) -> Window:
        """Return the window of a timeline to which values have been added in front, or from which some are taken."""
        return replace(self, start=self.start + by, end=self.end + by)


@dataclass(frozen=True)
class Side:
    """What one branch does: its operators, and where among them something runs more than once, or branches again.

    Spans and forks count from the first of its own operators.
    """

    operators: Sequence[Any] = ()
    spans: Spans = ()
    forks: Sequence[Fork] = ()


@dataclass(frozen=True)
class Fork:
    """Where one of several branches runs: the index of the first operator, the counted branch, and the others."""

    start: int
    counted: Side
    others: Sequence[Side]
    reason: str

    @property
    def end(self) -> int:
        """The index behind the last operator of the counted branch."""
        return self.start + len(self.counted.operators)

    def shift(self, by: int) -> Fork:
        """Return the fork of a list of operators in front of which others have been put."""
        return replace(self, start=self.start + by)


class PeakEnds(NamedTuple):
    """The least and the most bytes that a peak may have."""

    low: int
    high: int


def peak_ends(live_bytes: Sequence[int], input_bytes: int, windows: Sequence[Window]) -> PeakEnds:
    """Return the least and the most bytes that the peak of a timeline may have; ``windows`` do not overlap."""
    inside = {index for window in windows for index in range(window.start, window.end)}
    always = max((input_bytes, *(alive for index, alive in enumerate(live_bytes) if index not in inside)))
    return PeakEnds(
        low=max((always, *(window.low for window in windows))), high=max((always, *(window.high for window in windows)))
    )


def peak_spread(live_bytes: Sequence[int], input_bytes: int, windows: Sequence[Window]) -> PeakSpread:
    """Return how much the peak of a timeline may differ; ``windows`` do not overlap.

    >>> peak_spread((5, 9, 9, 4), 2, [Window(1, 3, 3, 12, "a condition")])
    PeakSpread(below=4, above=3, reasons=('a condition',))
    """
    peak = max((input_bytes, *live_bytes))
    low, high = peak_ends(live_bytes, input_bytes, windows)
    if low == high:
        return PeakSpread()
    reasons = dict.fromkeys(window.reason for window in windows if window.high > max(window.low, low))
    return PeakSpread(peak - low, high - peak, tuple(reasons))


def spread_of_forks(
    operators: Sequence[Any], spans: Spans, forks: Sequence[Fork], timeline: Timeline, input_bytes: int = 0
) -> PeakSpread:
    """Return how much the peak may differ by which side of each fork is taken.

    The operators of each side make the values that what follows reads. Nothing is known of the peak where that would
    take too long.

    Here each operator is the number of bytes that are alive while it runs: 9 and then 7 on the counted side.

    >>> fork = Fork(1, Side([9, 7]), [Side([3])], "a condition")
    >>> spread_of_forks([5, 9, 7, 4], (), [fork], lambda operators, spans: operators)
    PeakSpread(below=4, above=0, reasons=('a condition',))
    """
    if not forks:
        return PeakSpread()
    if sum(map(_count_timelines, forks)) * len(operators) > _MOST_OPERATORS:
        return PeakSpread(None, None, tuple(dict.fromkeys(fork.reason for fork in forks)))
    windows = _find_windows(operators, spans, forks, timeline)
    return peak_spread(timeline(operators, spans), input_bytes, windows)


def _count_timelines(fork: Fork) -> int:
    sides = (fork.counted, *fork.others)
    return len(sides) + sum(_count_timelines(inner) for side in sides for inner in side.forks)


def _find_windows(
    operators: Sequence[Any], spans: Spans, forks: Sequence[Fork], timeline: Timeline, start: int = 0
) -> list[Window]:
    """Return the window of each fork, counted as the forks are.

    The forks of a side count from that side's first operator. Its index among ``operators`` is ``start``.
    """
    windows = []
    for fork in forks:
        placed = fork.shift(start)
        ends = [_find_ends(operators, spans, placed, side, timeline) for side in (fork.counted, *fork.others)]
        low, high = min(end.low for end in ends), max(end.high for end in ends)
        windows.append(Window(fork.start, fork.end, low, high, fork.reason))
    return windows


def _find_ends(operators: Sequence[Any], spans: Spans, fork: Fork, side: Side, timeline: Timeline) -> PeakEnds:
    """Return the least and the most that the peak may be while one side of a fork runs; 0 where it does nothing."""
    program = _put_in_place(operators, spans, fork, side)
    alive = timeline(program.operators, program.spans)[fork.start : fork.start + len(side.operators)]
    windows = _find_windows(program.operators, program.spans, side.forks, timeline, fork.start)
    return peak_ends(alive, 0, windows)


class _Program(NamedTuple):
    """Operators, and the ranges of them that run more than once."""

    operators: Sequence[Any]
    spans: Spans


def _put_in_place(operators: Sequence[Any], spans: Spans, fork: Fork, side: Side) -> _Program:
    """Return a program with one side of a fork in the place of the counted one."""
    grown = len(side.operators) - len(fork.counted.operators)
    spans_of_counted = {(start + fork.start, end + fork.start) for start, end in fork.counted.spans}
    moved = []
    for start, end in spans:
        if (start, end) in spans_of_counted:
            continue
        if start >= fork.end:  # a span behind the fork moves
            moved.append((start + grown, end + grown))
        elif end > fork.start:  # one around it changes its length
            moved.append((start, end + grown))
        else:
            moved.append((start, end))
    spans_of_side = [(start + fork.start, end + fork.start) for start, end in side.spans]
    return _Program([*operators[: fork.start], *side.operators, *operators[fork.end :]], [*moved, *spans_of_side])
