"""Gives each operator of a profile the layer that it worked for: by ranges, modules, or the order of operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.count_text import format_count
from profilerkit.errors import by_likeness
from profilerkit.trace.records import OpRecord

from ..operator_timing.events import EventKind, Frame, assign_layers
from .module_calls import assign_layers_by_modules
from .profiled_operators import common_name, find_common_name, join_whole_layers, name_as_compiled
from .sequence import assign_layers_by_order
from .shapes import Match, require_equal_shapes
from .windows import Window, find_passes, has_steps, split_by_products

__all__ = ["BY_ORDER", "find_layers", "has_repeated_layers"]

BY_ORDER = "the names and order of operators"


def find_layers(frames: Sequence[Frame], trace: ModelTrace) -> tuple[list[Window], str]:
    """Give each frame its layer; return the windows of the passes, and the source of the layers in words.

    Raises `ProfileFileError` for a profile of another model.
    """
    kinds = {frame.event.kind for frame in frames}
    if EventKind.LAYER in kinds:
        _require_known_layers(frames, trace)
        by = "ranges that name the layers"
        windows = _check_layers(frames, trace)
    elif EventKind.MODULE in kinds:
        left = assign_layers_by_modules(frames, trace)
        by = "calls of modules" + (f", of which {left} have no layer in the model" if left else "")
        windows = _check_layers(frames, trace)
    else:
        by = BY_ORDER
        windows = _assign_unnamed(frames, trace)
    return windows, by


def _require_known_layers(frames: Sequence[Frame], trace: ModelTrace) -> None:
    """Raise `ProfileFileError` if a range names a layer that the model does not have."""
    names = frozenset(layer.path for layer in trace.layers)
    named = dict.fromkeys(frame.event.name for frame in frames if frame.event.kind is EventKind.LAYER)
    strangers = [name for name in named if name not in names]
    if strangers:
        nearest = ", ".join(map(repr, by_likeness(strangers[0], names)[:3]))
        raise ProfileFileError(
            f"the profile is of another model: it has {format_count(len(strangers), 'layer')} that the model has not, "
            f"such as {strangers[0]!r}; the model's nearest are {nearest}"
        )


def _follow_profile(trace: ModelTrace, frames: Sequence[Frame]) -> ModelTrace:
    """Return the trace with its operators joined and named like the operators of a profile."""
    profiled = {frame.event.name for frame in frames if frame.event.kind is EventKind.OPERATOR}
    operators = join_whole_layers(trace, frames, profiled)
    return replace(trace, operators=tuple(name_as_compiled(operator, profiled) for operator in operators))


def _check_layers(frames: Sequence[Frame], trace: ModelTrace) -> list[Window]:
    """Return the windows of passes, and give frames without a layer the layer of the frame around them.

    Raises `ProfileFileError` if the layers have none of the trace's products, or have products with other shapes.
    """
    windows = find_passes(frames)
    assign_layers(frames)
    profiled = _follow_profile(trace, frames)
    matches = list(_match_first_products(frames, windows[0], profiled))
    if not matches and any(operator.macs for operator in profiled.operators):
        raise ProfileFileError(
            "the profile is of another model: in the layers that it names, none of the model's products is found"
        )
    require_equal_shapes(matches)
    return windows


def _match_first_products(frames: Sequence[Frame], window: Window, trace: ModelTrace) -> Iterator[Match]:
    """Yield the first product of each name in each layer, in a pass of the profile and in the trace."""
    first: dict[tuple[str, str], OpRecord] = {}
    for operator in trace.operators:
        if operator.macs and operator.phase == "forward":
            first.setdefault((operator.layer, find_common_name(operator)), operator)
    for frame in frames:
        if window.contains(frame.event.start) and frame.layer is not None and not frame.is_backward:
            key = frame.layer, common_name(frame.event.name)
            if key in first:
                yield Match(frame, first.pop(key))


def _assign_unnamed(frames: Sequence[Frame], trace: ModelTrace) -> list[Window]:
    """Give frames layers if the profile names no layers; return the windows of the passes.

    Raises `ProfileFileError` if the operators differ from the trace's, or have other shapes.
    """
    profiled = _follow_profile(trace, frames)
    is_marked = has_steps(frames)
    windows = find_passes(frames) if is_marked else split_by_products(frames, profiled)
    matches = assign_layers_by_order(frames, windows, profiled)
    require_equal_shapes(matches)
    assign_layers(frames)
    if has_repeated_layers(trace):  # their operators in the backward pass are not matched
        for frame in frames:
            frame.layer = None if frame.is_backward else frame.layer
    if is_marked:
        return windows
    first, *others = windows
    return [_begin_with(matches[0].frame, first), *others]  # work before the first operator prepared the model


def has_repeated_layers(trace: ModelTrace) -> bool:
    """Return whether a checkpoint runs layers again in the backward pass."""
    return any(operator.recomputed for operator in trace.operators)


def _begin_with(first: Frame, window: Window) -> Window:
    """Return a window that begins with the outermost operator around a frame, if it begins inside the window."""
    start = min(frame.event.start for frame in first.around if frame.event.kind is EventKind.OPERATOR)
    return window._replace(start=start) if start < window.end else window
