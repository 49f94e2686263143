"""The passes of a profile, each a window of time: by marked steps, by calls of the model, or by repeated products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, starmap
from typing import NamedTuple

from profilerkit import ModelTrace

from ..operator_timing.events import Event, EventKind, Frame
from .profiled_operators import find_common_name, list_named_operators
from .trace_events import STEP_RANGE

__all__ = ["Window", "find_passes", "has_steps", "split_by_products"]

#: The last window ends so many seconds after the last event, which may take no time.
_AFTER = 1e-9


class Window(NamedTuple):
    """The seconds of one pass: from its start on, up to its end."""

    start: float
    end: float

    def contains(self, moment: float) -> bool:
        """Return whether a moment lies in the window."""
        return self.start <= moment < self.end


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


def split_by_products(frames: Sequence[Frame], trace: ModelTrace) -> list[Window]:
    """Return a window for each pass of a profile that marks none: a pass begins with the first product of the trace.

    The number of passes follows from the number of products. For example, the trace has the products
    ``mm, mm, conv``, and the profile has::

        mm mm conv mm mm conv

    These are 6 products, and 3 in the trace: 2 passes. They have 4 ``mm``, 2 in each pass, so every second ``mm``
    begins a pass. The number of passes is rounded: a profile may have some products more than the trace, or fewer.
    """
    (whole,) = find_passes(frames)
    products = [find_common_name(op) for op in trace.operators if op.macs and op.phase == "forward"]
    if not products:
        return [whole]
    passes = round(len(list_named_operators(frames, frozenset(products))) / len(products))
    first_products = list_named_operators(frames, frozenset(products[:1]))
    in_each_pass = len(first_products) // max(passes, 1)
    if passes < 2 or not in_each_pass:  # fewer than passes: the begin of a pass is unknown
        return [whole]
    later_passes = first_products[in_each_pass::in_each_pass][: passes - 1]
    starts = [whole.start, *(frame.event.start for frame in later_passes)]
    return list(starmap(Window, pairwise([*starts, whole.end])))
