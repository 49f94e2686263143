"""The layers of operators if the profile names no layers: the trace has the same operators in the same order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

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
    """The name of an operator, which it has in profiles and in traces, and its position there, from 0."""

    name: str
    position: int


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
    traced = [_Named(find_common_name(operator), position) for position, operator in enumerate(operators)]
    named = list_named_operators(frames, frozenset(name for name, _ in traced))
    profiled = [_Named(common_name(frame.event.name), position) for position, frame in enumerate(named)]
    products = {name for name, position in traced if operators[position].macs}
    matches = [
        Match(named[in_profile.position], operators[in_trace.position])
        for in_profile, in_trace in _align(profiled, traced, products)
    ]
    for frame, operator in matches:
        frame.layer = operator.layer
    matched = {match.frame for match in matches}
    _assign_around(matched)
    _assign_between(_list_outermost(frames, named), matched)
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

    >>> profiled = [_Named("relu", 0), _Named("mm", 1), _Named("add", 2), _Named("mm", 3)]
    >>> traced = [_Named("mm", 0), _Named("add", 1), _Named("relu", 2), _Named("mm", 3)]
    >>> [(in_profile.position, in_trace.position) for in_profile, in_trace in _align(profiled, traced, {"mm"})]
    [(1, 0), (2, 1), (3, 3)]
    """
    profiled_products = [operator for operator in profiled if operator.name in products]
    traced_products = [operator for operator in traced if operator.name in products]
    begin = begin_traced = 0  # of the operators behind the product before
    for in_profile, in_trace in _match(profiled_products, traced_products):
        yield from _match(profiled[begin : in_profile.position], traced[begin_traced : in_trace.position])
        yield in_profile, in_trace
        begin, begin_traced = in_profile.position + 1, in_trace.position + 1
    yield from _match(profiled[begin:], traced[begin_traced:])


def _match(profiled: Sequence[_Named], traced: Sequence[_Named]) -> Iterator[tuple[_Named, _Named]]:
    """Yield operators of equal names in the same order."""
    profiled_names = [operator.name for operator in profiled]
    traced_names = [operator.name for operator in traced]
    if profiled_names == traced_names:  # true of most profiles; the search below takes quadratic time
        yield from zip(profiled, traced, strict=True)
        return
    blocks = SequenceMatcher(None, profiled_names, traced_names, autojunk=False).get_matching_blocks()
    for begin, begin_traced, size in blocks:
        yield from zip(profiled[begin : begin + size], traced[begin_traced : begin_traced + size], strict=True)


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


def _assign_between(outer: Iterable[Frame], matched: Container[Frame]) -> None:
    """Give operators between two matched operators of one layer this layer."""
    last: str | None = None
    between: list[Frame] = []
    for frame in outer:
        if frame not in matched:
            between.append(frame)
            continue
        if frame.layer == last:
            for unmatched in between:
                unmatched.layer = last
        last, between = frame.layer, []
