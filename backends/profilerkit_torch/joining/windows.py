"""The passes of a profile, each a window of time: by marked steps, by calls of the model, or by repeated products."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, starmap
from typing import NamedTuple

from profilerkit import ProfileFileError

from ..operator_timing.events import Event, EventKind, Frame
from .alignment import match
from .profiled_operators import common_name, list_named_operators
from .trace_events import STEP_RANGE

__all__ = ["Window", "find_index", "find_passes", "has_steps", "keep_used", "split_by_operators"]

#: The last window ends so many seconds after the last event, which may take no time.
_AFTER = 1e-9
#: A profile with so many times the products of the trace has several passes.
_SEVERAL = 1.5


class Window(NamedTuple):
    """The seconds of one pass: from its start on, up to its end."""

    start: float
    end: float

    def contains(self, moment: float) -> bool:
        """Return whether a moment lies in the window."""
        return self.start <= moment < self.end


def find_index(windows: Sequence[Window], moment: float) -> int | None:
    """Return the index of the window in which a moment lies; None outside of all windows, which are in order."""
    index = bisect_right(windows, moment, key=lambda window: window.start) - 1
    return index if index >= 0 and windows[index].contains(moment) else None


def has_steps(frames: Sequence[Frame]) -> bool:
    """Return whether a profile marks its passes by ranges."""
    return any(frame.event.kind is EventKind.PASS for frame in frames)


def find_passes(frames: Sequence[Frame]) -> list[Window]:
    """Return the windows of passes: the ranges that mark them, or else from one call of the model to the next.

    A profile with neither is one window.
    """
    ranges = [frame.event for frame in frames if frame.event.kind is EventKind.PASS]
    if ranges:
        return _list_marked(ranges)
    calls = [frame for frame in frames if frame.layer == ""]  # of the whole model, whose path is empty
    starts = [call.event.start for call in calls if all(outer.layer != "" for outer in call.outer_frames)]
    if not starts:
        starts = [min(frame.event.start for frame in frames)]
    last = max(frame.event.end for frame in frames)
    return list(starmap(Window, pairwise([*starts, last + _AFTER])))


def _list_marked(ranges: Sequence[Event]) -> list[Window]:
    """Return the windows of ranges that mark passes; of ranges inside each other the innermost.

    A profile may have steps of the profiler's schedule, and the ranges of the script of ``profilerkit trace-script``.
    If a step has a range of the script inside, this range is the pass::

        ProfilerStep#3 [ data is loaded, profilerkit pass [ the model runs ] ]

    If the last range is a step, it has no other range inside: then only the steps are passes.
    """
    if ranges[-1].name.startswith(STEP_RANGE):
        ranges = [marked for marked in ranges if marked.name.startswith(STEP_RANGE)]
    windows = {Window(marked.start, marked.end) for marked in ranges}
    ordered = sorted(windows, key=lambda window: (window.start, -window.end))
    without_inner = [window for window, following in pairwise(ordered) if following.start >= window.end]
    return [*without_inner, ordered[-1]]


def keep_used(windows: Sequence[Window], frames: Sequence[Frame]) -> list[Window]:
    """Return the windows in which a layer ran; raises `ProfileFileError` if there are none.

    The profiler opens a step whenever one ends: a loop that ends before the schedule leaves a last step without a pass.
    """
    used = {find_index(windows, frame.event.start) for frame in frames if frame.is_work and frame.layer is not None}
    kept = [window for index, window in enumerate(windows) if index in used]
    if not kept:
        raise ProfileFileError("the passes of the profile have no operator of a layer in them")
    return kept


# Passes that nothing marks --------------------------------------------------------------------------------------------


def split_by_operators(frames: Sequence[Frame], traced: Sequence[str], products: Sequence[str]) -> list[Window]:
    """Return a window for each pass of a profile that marks none, by the names of the trace's operators and products.

    For example, the trace has ``norm, mm, relu, conv``, of which ``mm`` and ``conv`` are products, and the profile::

        norm mm relu conv norm mm relu conv

    The products ``mm, conv`` repeat: these are 2 passes. The second begins with the second ``mm``, and with what the
    trace has before it: the second ``norm``. Raises `ProfileFileError` if products are repeated, but not exactly.
    """
    (whole,) = find_passes(frames)
    operators = list_named_operators(frames, frozenset(traced))
    names = [common_name(frame.event.name) for frame in operators]
    positions = [index for index, name in enumerate(names) if name in products]
    passes = _count_passes([names[index] for index in positions], products)
    starts = [whole.start]
    for number in range(1, passes):
        next_product = number * len(positions) // passes
        behind, first = positions[next_product - 1] + 1, positions[next_product]
        begin = behind + _count_of_earlier_pass(names[behind:first], traced, products)
        starts.append(operators[begin].event.start)
    return list(starmap(Window, pairwise([*starts, whole.end])))


def _count_of_earlier_pass(between: Sequence[str], traced: Sequence[str], products: Sequence[str]) -> int:
    """Return how many of the operators between the products of two passes belong to the earlier pass.

    >>> _count_of_earlier_pass(["relu", "sum", "norm"], ["norm", "copy", "mm", "relu"], ["mm"])
    2
    """
    positions = [index for index, name in enumerate(traced) if name in products]
    tail, head = traced[positions[-1] + 1 :], traced[: positions[0]]
    of_next_pass = (index for index, traced_index in match(between, [*tail, *head]) if traced_index >= len(tail))
    return next(of_next_pass, len(between))


def _count_passes(profiled: list[str], products: Sequence[str]) -> int:
    """Return how often the products of a profile repeat; of several answers the one that fits the trace's products.

    >>> _count_passes(["mm", "mm", "conv"] * 2, ["mm", "mm", "conv"]), _count_passes(["mm"] * 6, ["mm", "mm"])
    (2, 3)
    """
    if not profiled or not products:
        return 1
    expected = len(profiled) / len(products)
    counts, traced_counts = Counter(profiled), Counter(products)

    def rate(passes: int) -> tuple[int, float]:
        """Return for how many products of the trace the number of passes is exact, and how near it is to all."""
        exact = (number for name, number in traced_counts.items() if counts[name] == passes * number)
        return sum(exact), -abs(passes - expected)

    repeated = [
        passes
        for passes in range(1, len(profiled) + 1)
        if len(profiled) % passes == 0 and profiled == profiled[: len(profiled) // passes] * passes
    ]
    passes = max(repeated, key=rate)
    if passes == 1 and expected >= _SEVERAL:
        raise ProfileFileError(
            f"the profile marks no passes, and has {expected:.1f} times the model's products, which do not repeat: the "
            "begins of passes are not known; profile with a schedule, whose steps are passes, or with the script of "
            "'profilerkit trace-script'"
        )
    return passes
