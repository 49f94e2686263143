"""The passes of a profile, each a window of time: by its steps, by the calls of the model, or by repeated products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, starmap
from typing import NamedTuple

from profilerkit import ModelTrace

from .operator_names import common_name, find_common_name
from .trace_events import Frame, HostEvent, Kind

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
    return any(frame.event.kind is Kind.PASS for frame in frames)


def find_passes(frames: Sequence[Frame]) -> list[Window]:
    """Return the windows of passes: what a range of a step has around it, or from one call of the model to the next.

    A profile with neither is one window.
    """
    steps = [frame.event for frame in frames if frame.event.kind is Kind.PASS]
    if steps:
        return _list_steps(steps)
    starts = [frame.event.start for frame in frames if frame.layer == "" and not _is_inside_model(frame)]
    if not starts:
        starts = [min(frame.event.start for frame in frames)]
    last = max(frame.event.end for frame in frames)
    return list(starmap(Window, pairwise([*starts, last + _AFTER])))


def _list_steps(steps: Sequence[HostEvent]) -> list[Window]:
    """Return the windows of ranges called as the last one, or as the profiler itself calls steps; the innermost."""
    name = steps[-1].name
    alike = {
        Window(step.start, step.end) for step in steps if step.name == name or step.name.startswith("ProfilerStep#")
    }
    ordered = sorted(alike, key=lambda window: (window.start, -window.end))
    inner = [window for window, following in pairwise(ordered) if following.start >= window.end]
    return [*inner, ordered[-1]]


def _is_inside_model(frame: Frame) -> bool:
    return any(outer.layer == "" for outer in frame.around if outer is not frame)


def split_by_products(whole: Window, frames: Sequence[Frame], trace: ModelTrace) -> list[Window]:
    """Return a window for each pass of a profile that marks none: it begins where the first product of the trace does.

    There are as many passes as the products of the trace stand in the profile one after the other.
    """
    products = [find_common_name(op) for op in trace.operators if op.macs and op.phase == "forward"]
    if not products:
        return [whole]
    passes = round(len(_list_outer_operators(frames, frozenset(products))) / len(products))
    first_products = _list_outer_operators(frames, frozenset(products[:1]))
    in_each_pass = len(first_products) // max(1, passes)
    if passes < 2 or not in_each_pass:  # one pass, or not even the first product so often
        return [whole]
    later_starts = [first_products[index * in_each_pass].event.start for index in range(1, passes)]
    return list(starmap(Window, pairwise([whole.start, *later_starts, whole.end])))


def _list_outer_operators(frames: Sequence[Frame], names: frozenset[str]) -> list[Frame]:
    """Return the operators of the forward pass with these names, of nested ones the outermost."""
    return [
        frame
        for frame in frames
        if _is_operator(frame, names)
        and not frame.is_backward
        and not any(common_name(outer.event.name) in names for outer in frame.around if outer is not frame)
    ]


def _is_operator(frame: Frame, names: frozenset[str]) -> bool:
    return frame.event.kind is Kind.OPERATOR and common_name(frame.event.name) in names
