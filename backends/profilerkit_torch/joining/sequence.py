"""Which layers operators work for where the profile names none: the trace has the same operators in the same order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.trace.records import OpRecord

from .operator_names import common_name, find_common_name
from .trace_events import Frame, Kind
from .windows import Window

__all__ = ["name_layers_by_operators"]

#: A profile of the same model has more than this share of the trace's products.
_LEAST = 0.5


class _Profiled(NamedTuple):
    """An operator of one pass of the profile: which one it is, and the name that it has on every device."""

    position: int
    name: str
    frame: Frame


class _Traced(NamedTuple):
    """An operator of the trace: which one it is, and the name that it has on every device."""

    position: int
    name: str
    operator: OpRecord


def name_layers_by_operators(
    frames: Sequence[Frame], windows: Sequence[Window], trace: ModelTrace
) -> list[tuple[Frame, OpRecord]]:
    """Give frames of operators the layers of the trace's operators that they are; return the pairs.

    Each pass is aligned with the trace: equal names in the same order are pairs. An operator between two pairs of one
    layer is that layer's too. Raises `ProfileFileError` if too few of the trace's products are in the profile.
    """
    operators = [operator for operator in trace.operators if operator.phase == "forward"]
    traced = [_Traced(position, find_common_name(operator), operator) for position, operator in enumerate(operators)]
    pairs: list[tuple[Frame, OpRecord]] = []
    for window in windows:
        pairs += _name_one_pass([frame for frame in frames if window.contains(frame.event.start)], traced)
    products = sum(operator.macs > 0 for operator in operators) * len(windows)
    matched = sum(operator.macs > 0 for _, operator in pairs)
    if (products and matched <= _LEAST * products) or not pairs:
        raise ProfileFileError(
            f"the profile is of another model: {matched} of the {products} products that the model has in "
            f"{len(windows)} passes are found in it by their names and order; give the model that was profiled, or "
            "make the profile with the script of 'profilerkit trace-script', which names the layers"
        )
    return pairs


def _name_one_pass(frames: Sequence[Frame], traced: Sequence[_Traced]) -> list[tuple[Frame, OpRecord]]:
    """Give the frames of one pass their layers; return the pairs of frames and the trace's operators."""
    names = frozenset(op.name for op in traced)
    outer = _list_outer(frames, names)
    candidates = [frame for frame in outer if common_name(frame.event.name) in names]
    profiled = [_Profiled(position, common_name(frame.event.name), frame) for position, frame in enumerate(candidates)]
    pairs = [(profiled_op.frame, op.operator) for profiled_op, op in _align(profiled, traced)]
    for frame, operator in pairs:
        frame.layer = operator.layer
    _name_holders(pairs)
    _name_between(outer, {id(frame) for frame, _ in pairs})
    return pairs


def _list_outer(frames: Iterable[Frame], names: frozenset[str]) -> list[Frame]:
    """Return the operators that the trace may have, of nested ones the outer, and outermost ones that it has not."""
    frames = list(frames)
    holders = {
        id(outer)
        for frame in frames
        if common_name(frame.event.name) in names
        for outer in frame.around
        if outer is not frame
    }
    kept: list[Frame] = []
    taken: set[int] = set()
    for frame in frames:
        if frame.event.kind is not Kind.OPERATOR or frame.is_backward:
            continue
        if any(id(outer) in taken for outer in frame.around):
            continue
        if common_name(frame.event.name) in names or id(frame) not in holders:
            kept.append(frame)
            taken.add(id(frame))
    return kept


def _align(profiled: Sequence[_Profiled], traced: Sequence[_Traced]) -> Iterator[tuple[_Profiled, _Traced]]:
    """Yield pairs of equal names in the same order: the products are paired first, then what lies between two of them.

    A version of torch that has one operator more beside every product would otherwise move the pairs of products.
    """
    products = frozenset(op.name for op in traced if op.operator.macs)
    paired_products = _pair_equal_names(
        [profiled_op for profiled_op in profiled if profiled_op.name in products],
        [op for op in traced if op.name in products],
    )
    after_profiled = after_traced = 0
    for profiled_op, op in paired_products:
        yield from _pair_equal_names(
            profiled[after_profiled : profiled_op.position], traced[after_traced : op.position]
        )
        yield profiled_op, op
        after_profiled, after_traced = profiled_op.position + 1, op.position + 1
    yield from _pair_equal_names(profiled[after_profiled:], traced[after_traced:])


def _pair_equal_names(profiled: Sequence[_Profiled], traced: Sequence[_Traced]) -> Iterator[tuple[_Profiled, _Traced]]:
    """Yield pairs of equal names in the same order; of equal lists every one."""
    profiled_names, traced_names = [profiled_op.name for profiled_op in profiled], [op.name for op in traced]
    if profiled_names == traced_names:
        yield from zip(profiled, traced, strict=True)
        return
    for block in SequenceMatcher(None, profiled_names, traced_names, autojunk=False).get_matching_blocks():
        yield from zip(profiled[block.a : block.a + block.size], traced[block.b : block.b + block.size], strict=True)


def _name_holders(pairs: Sequence[tuple[Frame, OpRecord]]) -> None:
    """Give an operator around others, which the trace has not, their layer, if that is the same for all of them."""
    holders: dict[int, Frame] = {}
    layers: defaultdict[int, set[str]] = defaultdict(set)
    for frame, operator in pairs:
        for outer in frame.around:
            if outer.event.kind is Kind.OPERATOR and outer.layer is None:
                holders[id(outer)] = outer
                layers[id(outer)].add(operator.layer)
    for key, holder in holders.items():
        if len(layers[key]) == 1:
            holder.layer = next(iter(layers[key]))


def _name_between(frames: Sequence[Frame], paired: set[int]) -> None:
    """Give operators between two pairs of one layer that layer."""
    before: str | None = None
    waiting: list[Frame] = []
    for frame in frames:
        if id(frame) not in paired:
            waiting.append(frame)
            continue
        if before is not None and before == frame.layer:
            for unpaired in waiting:
                unpaired.layer = before
        waiting, before = [], frame.layer
