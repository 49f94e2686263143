"""Gives each operator of a profile the layer that it worked for: by ranges that name layers, or by their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.count_text import format_count
from profilerkit.errors import by_likeness
from profilerkit.trace.records import OpRecord

from ..operator_timing.events import EventKind, Frame, assign_layers
from .operator_order import assign_layers_by_order
from .profiled_operators import common_name, find_common_name, find_whole_layer
from .shapes import Match, require_equal_shapes
from .windows import Window, find_passes, keep_used

__all__ = ["BY_ORDER", "find_layers"]

_BY_RANGES, BY_ORDER = "ranges that name the layers", "the names and order of operators"


def find_layers(frames: Sequence[Frame], trace: ModelTrace) -> tuple[list[Window], str]:
    """Give each frame its layer; return the windows of the passes, and the source of the layers in words.

    Raises `ProfileFileError` for a profile of another model.
    """
    if any(frame.event.kind is EventKind.LAYER for frame in frames):
        _require_known_layers(frames, trace)
        windows = find_passes(frames)
        assign_layers(frames)
        windows = keep_used(windows, frames)
        _require_same_products(frames, windows[0], trace)
        return windows, _BY_RANGES
    return keep_used(assign_layers_by_order(frames, trace), frames), BY_ORDER


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


def _require_same_products(frames: Sequence[Frame], window: Window, trace: ModelTrace) -> None:
    """Raise `ProfileFileError` if the layers have none of the trace's products, or have products with other shapes.

    A layer that runs as a whole shows none of the products of the layers inside of it.
    """
    matches = list(_match_first_products(frames, window, trace))
    if not matches and any(operator.macs for operator in trace.operators) and not find_whole_layer(frames):
        raise ProfileFileError(
            "the profile is of another model: in the layers that it names, none of the model's products is found"
        )
    require_equal_shapes(matches)


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
