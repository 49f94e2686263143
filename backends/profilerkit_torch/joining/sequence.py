"""The layers of operators if the profile names no layers: the trace has the same operators in the same order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, NamedTuple

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.trace.records import OpRecord

from ..operator_timing.events import EventKind, Frame
from .profiled_operators import common_name, find_common_name, list_named_operators
from .shapes import Match
from .windows import Window

__all__ = ["assign_layers_by_order"]

#: A profile of the same model has more than this share of the trace's products, but not all: libraries fuse some.
_LEAST = 0.5


class _Named(NamedTuple):
    """An operator of the profile or of the trace, and the name that it has in both."""

    name: str
    operator: Any


def assign_layers_by_order(frames: Sequence[Frame], windows: Sequence[Window], trace: ModelTrace) -> list[Match]:
    """Match each pass with the trace: set the layers of its frames, and return the matches.

    Operators match that have equal names, in the same order. For example, in ::

        trace:    conv (layer "0"), relu (layer "1"), conv (layer "2"), mm (layer "2")
        profile:  conv, relu, conv, copy, mm

    all but the copy match, and the copy, between two operators of "2", belongs to "2" too. Raises `ProfileFileError` if
    too few of the trace's products are in the profile.
    """
    operators = [operator for operator in trace.operators if operator.phase == "forward"]
    matches: list[Match] = []
    for window in windows:
        matches += _assign_in_pass([frame for frame in frames if window.contains(frame.event.start)], operators)
    products = sum(operator.macs > 0 for operator in operators) * len(windows)
    matched = sum(match.operator.macs > 0 for match in matches)
    if (products and matched <= _LEAST * products) or not matches:
        raise ProfileFileError(
            f"the profile is of another model: {matched} of the {products} products that the model has in "
            f"{len(windows)} passes are found in it by their names and order; give the model that was profiled, or "
            "make the profile with the script of 'profilerkit trace-script', which names the layers"
        )
    return matches


def _assign_in_pass(frames: Sequence[Frame], operators: Sequence[OpRecord]) -> list[Match]:
    """Set the layers of the frames of one pass; return the matches."""
    traced = [_Named(find_common_name(operator), operator) for operator in operators]
    products = frozenset(name for name, operator in traced if operator.macs)
    named = list_named_operators(frames, frozenset(name for name, _ in traced))
    profiled = [_Named(common_name(frame.event.name), frame) for frame in named]
    matches = [Match(mine.operator, theirs.operator) for mine, theirs in _align(profiled, traced, products)]
    for frame, operator in matches:
        frame.layer = operator.layer
    layers = {frame: operator.layer for frame, operator in matches}
    _assign_around(layers)
    _assign_between(_list_outermost(frames, named), layers)
    return matches


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


def _align(
    profiled: Sequence[_Named], traced: Sequence[_Named], products: Container[str]
) -> Iterator[tuple[_Named, _Named]]:
    """Yield operators of equal names in the same order: the products are aligned first, then operators between them.

    A version of torch that has one more operator beside every product would otherwise shift the products.

    >>> profiled, traced = (
    ...     [_Named(name, place) for place, name in enumerate(names)]
    ...     for names in (["relu", "mm", "add", "mm"], ["mm", "add", "relu", "mm"])
    ... )
    >>> [(mine.operator, theirs.operator) for mine, theirs in _align(profiled, traced, {"mm"})]
    [(1, 0), (2, 1), (3, 3)]
    """
    remaining, remaining_traced = iter(profiled), iter(traced)
    for mine, theirs in _match(*([item for item in items if item.name in products] for items in (profiled, traced))):
        yield from _match(_take_before(mine, remaining), _take_before(theirs, remaining_traced))
        yield mine, theirs
    yield from _match(list(remaining), list(remaining_traced))


def _take_before(item: _Named, items: Iterator[_Named]) -> list[_Named]:
    """Take the items up to one of them off an iterator, and return those before it."""
    return list(takewhile(lambda other: other is not item, items))


def _match(profiled: Sequence[_Named], traced: Sequence[_Named]) -> Iterator[tuple[_Named, _Named]]:
    """Yield operators of equal names in the same order."""
    profiled_names, traced_names = ([item.name for item in items] for items in (profiled, traced))
    if profiled_names == traced_names:  # true of most profiles; the search below takes quadratic time
        yield from zip(profiled, traced, strict=True)
        return
    for mine, theirs, size in SequenceMatcher(None, profiled_names, traced_names, autojunk=False).get_matching_blocks():
        yield from zip(profiled[mine : mine + size], traced[theirs : theirs + size], strict=True)


def _assign_around(layers: Mapping[Frame, str]) -> None:
    """Give an operator around matched operators their layer, if all of them have the same."""
    inside: defaultdict[Frame, set[str]] = defaultdict(set)
    for frame, layer in layers.items():
        for outer in frame.around:
            if outer.event.kind is EventKind.OPERATOR and outer.layer is None:
                inside[outer].add(layer)
    for outer, layers_inside in inside.items():
        if len(layers_inside) == 1:
            [outer.layer] = layers_inside


def _assign_between(outer: Iterable[Frame], layers: Mapping[Frame, str]) -> None:
    """Give operators between two matched operators of one layer this layer."""
    last: str | None = None
    between: list[Frame] = []
    for frame in outer:
        if frame not in layers:
            between.append(frame)
            continue
        if layers[frame] == last:
            for unmatched in between:
                unmatched.layer = last
        last, between = layers[frame], []
