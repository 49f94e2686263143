"""The layers of operators if the profile names no layers: the trace has the same operators in the same order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.trace.records import OpRecord

from ..operator_timing.events import EventKind, Frame, assign_layers
from .alignment import align
from .profiled_operators import common_name, find_common_name, find_whole_layer, list_forward, list_named_operators
from .shapes import Match, require_equal_shapes
from .windows import Window, find_index, find_passes, has_steps, split_by_operators

__all__ = ["assign_layers_by_order", "has_repeated_layers"]

#: A profile of the same model has more than this share of the trace's products, but not all: libraries fuse some.
_LEAST = 0.5
_REMEDY = "make the profile with the script of 'profilerkit trace-script', which names the layers"


def assign_layers_by_order(frames: Sequence[Frame], trace: ModelTrace) -> list[Window]:
    """Give frames layers if the profile names no layers; return the windows of the passes.

    Operators match that have equal names, in the same order. For example, in ::

        trace:    conv (layer "0"), relu (layer "1"), conv (layer "2"), mm (layer "2")
        profile:  conv, relu, conv, copy, mm

    all but the copy match, and the copy, between two operators of "2", belongs to "2" too. Raises `ProfileFileError` if
    too few of the trace's products are in the profile, or have other shapes.
    """
    whole = find_whole_layer(frames)
    if whole:
        raise ProfileFileError(
            f"the profile names no layers, and {whole}, so that the order of operators does not tell them; {_REMEDY}"
        )
    operators = list_forward(trace)
    traced = [find_common_name(operator) for operator in operators]
    products = [name for name, operator in zip(traced, operators, strict=True) if operator.macs]
    is_marked = has_steps(frames)
    windows = find_passes(frames) if is_marked else split_by_operators(frames, traced, products)
    matched_passes = [_assign_in_pass(inside, operators, traced) for inside in _divide(frames, windows)]
    used = [matches for matches in matched_passes if matches]
    matches = list(chain.from_iterable(used))
    _require_enough(matches, len(products), len(used))
    require_equal_shapes(matches)
    assign_layers(frames)
    if has_repeated_layers(trace):  # their operators in the backward pass are not matched
        for frame in frames:
            frame.layer = None if frame.is_backward else frame.layer
    if is_marked:
        return windows
    first, *others = windows
    return [_begin_with(matches[0].frame, first), *others]  # work before the first operator prepared the model


def _divide(frames: Iterable[Frame], windows: Sequence[Window]) -> list[list[Frame]]:
    """Return the frames that begin in each window."""
    inside: list[list[Frame]] = [[] for _ in windows]
    for frame in frames:
        index = find_index(windows, frame.event.start)
        if index is not None:
            inside[index].append(frame)
    return inside


def _require_enough(matches: Sequence[Match], products: int, passes: int) -> None:
    """Raise `ProfileFileError` if no more than half of the products of so many passes are matched."""
    expected = products * max(passes, 1)
    matched = sum(match.operator.macs > 0 for match in matches)
    if not matches or (products and matched <= _LEAST * expected):
        raise ProfileFileError(
            f"the profile is of another model: {matched} of the {expected} products that the model has in "
            f"{max(passes, 1)} passes are found in it by their names and order; give the model that was profiled, or "
            f"{_REMEDY}"
        )


def has_repeated_layers(trace: ModelTrace) -> bool:
    """Return whether a checkpoint runs layers again in the backward pass."""
    return any(operator.recomputed for operator in trace.operators)


def _begin_with(first: Frame, window: Window) -> Window:
    """Return a window that begins with the outermost operator around a frame, if it begins inside the window."""
    start = min(frame.event.start for frame in first.around if frame.event.kind is EventKind.OPERATOR)
    return window._replace(start=start) if start < window.end else window


# One pass -------------------------------------------------------------------------------------------------------------


def _assign_in_pass(frames: Sequence[Frame], operators: Sequence[OpRecord], traced: Sequence[str]) -> list[Match]:
    """Set the layers of the frames of one pass; return the matches, none if no product of the model is there."""
    named = list_named_operators(frames, frozenset(traced))
    profiled = [common_name(frame.event.name) for frame in named]
    products = {name for name, operator in zip(traced, operators, strict=True) if operator.macs}
    positions = {named[index]: position for index, position in align(profiled, traced, products)}
    if products and not any(operators[position].macs for position in positions.values()):
        return []
    for frame, position in positions.items():
        frame.layer = operators[position].layer
    _assign_around(positions)
    _assign_between(_list_outermost(frames, named), positions, operators)
    return [Match(frame, operators[position]) for frame, position in positions.items()]


def _list_outermost(frames: Sequence[Frame], named: Sequence[Frame]) -> Iterator[Frame]:
    """Yield named operators and others of the forward pass in order of time, of nested ones the outermost.

    Operators around named ones are left out. For example, of ``linear [ t, addmm ]`` it is ``linear`` if this is named,
    ``t`` and ``addmm`` if only ``addmm`` is named, and ``linear`` again if nothing is.
    """
    around_named = {outer for frame in named for outer in frame.outer_frames}
    yielded: set[Frame] = set()
    for frame in frames:
        is_forward = frame.event.kind is EventKind.OPERATOR and not frame.is_backward
        if is_forward and frame not in around_named and yielded.isdisjoint(frame.outer_frames):
            yielded.add(frame)
            yield frame


def _assign_around(matched: Iterable[Frame]) -> None:
    """Give an operator around matched operators their layer, if all of them have the same."""
    inside: defaultdict[Frame, set[str | None]] = defaultdict(set)
    for frame in matched:
        for outer in frame.outer_frames:
            if outer.event.kind is EventKind.OPERATOR and outer.layer is None:
                inside[outer].add(frame.layer)
    for outer, layers in inside.items():
        if len(layers) == 1:
            [outer.layer] = layers


def _assign_between(outermost: Iterable[Frame], matched: Mapping[Frame, int], operators: Sequence[OpRecord]) -> None:
    """Give operators between two matched ones their layer, if the trace has operators of no other layer there."""
    last: int | None = None
    between: list[Frame] = []
    for frame in outermost:
        if frame not in matched:
            between.append(frame)
            continue
        here = matched[frame]
        if last is not None and len({operator.layer for operator in operators[last : here + 1]}) == 1:
            for unmatched in between:
                unmatched.layer = frame.layer
        last, between = here, []
