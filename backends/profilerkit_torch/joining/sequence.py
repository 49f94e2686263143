"""The layers of operators if the profile names no layers: the trace has the same operators in the same order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.trace.records import OpRecord

from ..operator_timing.events import EventKind, Frame
from .common_names import common_name, find_common_name, list_named_operators
from .shapes import Match
from .windows import Window

__all__ = ["assign_layers_by_order"]

#: A profile of the same model has more than this share of the trace's products, but not all: libraries fuse some.
_LEAST = 0.5


class _Indices(NamedTuple):
    """The index of an operator in a pass of the profile, and its index in the trace."""

    profiled: int
    traced: int


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
    traced = [find_common_name(operator) for operator in operators]
    products = {name for name, operator in zip(traced, operators, strict=True) if operator.macs}
    names = frozenset(traced)
    named = list_named_operators(frames, names)
    profiled = [common_name(frame.event.name) for frame in named]
    matches = [Match(named[at.profiled], operators[at.traced]) for at in _align(profiled, traced, products)]
    for frame, operator in matches:
        frame.layer = operator.layer
    layers = {frame: operator.layer for frame, operator in matches}
    _assign_around(layers)
    _assign_between(_add_outermost(frames, named), layers)
    return matches


def _add_outermost(frames: Sequence[Frame], named: Sequence[Frame]) -> Iterator[Frame]:
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


def _align(profiled: Sequence[str], traced: Sequence[str], products: Container[str]) -> Iterator[_Indices]:
    """Yield the indices of equal names in the same order: the products are aligned first, then names between them.

    A version of torch that has one more operator beside every product would otherwise shift the products.

    >>> [tuple(at) for at in _align(["relu", "mm", "add", "mm"], ["mm", "add", "relu", "mm"], {"mm"})]
    [(1, 0), (2, 1), (3, 3)]
    """
    profiled_items, traced_items = list(enumerate(profiled)), list(enumerate(traced))
    end, before = _Indices(len(profiled), len(traced)), _Indices(-1, -1)
    aligned_products = _match(
        [item for item in profiled_items if item[1] in products], [item for item in traced_items if item[1] in products]
    )
    for product in (*aligned_products, end):
        yield from _match(
            profiled_items[before.profiled + 1 : product.profiled], traced_items[before.traced + 1 : product.traced]
        )
        if product != end:
            yield product
        before = product


def _match(profiled: Sequence[tuple[int, str]], traced: Sequence[tuple[int, str]]) -> Iterator[_Indices]:
    """Yield the indices of equal names in the same order; each name comes with its index."""
    profiled_names, traced_names = ([name for _, name in items] for items in (profiled, traced))
    if profiled_names == traced_names:  # true of most profiles; the search below takes quadratic time
        yield from (_Indices(mine, theirs) for (mine, _), (theirs, _) in zip(profiled, traced, strict=True))
        return
    for block in SequenceMatcher(None, profiled_names, traced_names, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            yield _Indices(profiled[block.a + step][0], traced[block.b + step][0])


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
