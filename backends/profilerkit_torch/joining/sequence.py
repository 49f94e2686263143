"""Which layers operators work for where the profile names none: the trace has the same operators in the same order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.trace.records import OpRecord

from .trace_events import Frame, Kind

__all__ = ["common_name", "find_profiled_name", "name_layers_by_operators"]

#: A profile of the same model has more than this share of the trace's products.
_LEAST = 0.5

#: What the name of an operator says of the library or device that runs it, and not of what it computes.
_LIBRARIES = re.compile(r"^_?(?:cudnn|miopen|mkldnn|native|fused|thnn)_|^_(?=convolution$|batch_norm_)")
_VARIANTS = re.compile(r"_legit(?:_functional|_no_training)?$|_overrideable$|_with_update$|_no_update$")
_ATTENTION = re.compile(r"^_scaled_dot_product_\w*attention\w*$")


def find_profiled_name(traced: str) -> str:
    """Return what the profiler calls an operator of the trace.

    >>> find_profiled_name("aten.mm.default"), find_profiled_name("aten::mm")
    ('aten::mm', 'aten::mm')
    """
    space, _, rest = traced.partition(".")
    return traced if "::" in traced or not rest else f"{space}::{rest.rpartition('.')[0] or rest}"


def common_name(name: str) -> str:
    """Return the name that an operator has on every device, in place or not: cuDNN's batch norm is a batch norm.

    >>> common_name("aten::cudnn_batch_norm"), common_name("aten::native_batch_norm"), common_name("aten::mm")
    ('aten::batch_norm', 'aten::batch_norm', 'aten::mm')
    >>> common_name("aten::_scaled_dot_product_flash_attention")
    'aten::scaled_dot_product_attention'
    """
    space, _, rest = name.rpartition("::")
    if space != "aten":
        return name
    if _ATTENTION.match(rest):
        return "aten::scaled_dot_product_attention"
    return f"aten::{_VARIANTS.sub('', _LIBRARIES.sub('', rest)).rstrip('_') or rest}"


class _Traced(NamedTuple):
    """An operator of the trace, with the name that it has in profiles of every device."""

    name: str
    operator: OpRecord


def name_layers_by_operators(
    frames: Sequence[Frame], windows: Sequence[tuple[float, float]], trace: ModelTrace
) -> list[tuple[Frame, OpRecord]]:
    """Give frames of operators the layers of the trace's operators that they are; return the pairs.

    Each pass is aligned with the trace: equal names in the same order are pairs. An operator between two pairs of one
    layer is that layer's too. Raises `ProfileFileError` if too few of the trace's products are in the profile.
    """
    traced = [
        _Traced(common_name(find_profiled_name(operator.operator)), operator)
        for operator in trace.operators
        if operator.phase == "forward"
    ]
    names = frozenset(op.name for op in traced)
    pairs: list[tuple[Frame, OpRecord]] = []
    for start, end in windows:
        inside = [frame for frame in frames if start <= frame.event.start < end]
        pairs += _align(_outermost(inside, names), traced, names)
    products = sum(op.operator.macs > 0 for op in traced) * len(windows)
    matched = sum(operator.macs > 0 for _, operator in pairs)
    if (products and matched <= _LEAST * products) or not pairs:
        raise ProfileFileError(
            f"the profile is of another model: {matched} of the {products} products that the model has in "
            f"{len(windows)} passes are found in it by their names and order; give the model that was profiled, or "
            "make the profile with the script of 'profilerkit trace-script', which names the layers"
        )
    return pairs


def _outermost(frames: Sequence[Frame], names: frozenset[str]) -> list[Frame]:
    """Return the operators that the trace may have, of nested ones the outer, and outermost ones that it has not."""
    kept: list[Frame] = []
    taken: set[int] = set()
    holders = {
        id(outer)
        for frame in frames
        if common_name(frame.event.name) in names
        for outer in frame.around
        if outer is not frame
    }
    for frame in frames:
        if frame.event.kind is not Kind.OPERATOR or frame.is_backward:
            continue
        if any(id(outer) in taken for outer in frame.around):
            continue
        if common_name(frame.event.name) in names or id(frame) not in holders:
            kept.append(frame)
            taken.add(id(frame))
    return kept


def _align(frames: Sequence[Frame], traced: Sequence[_Traced], names: frozenset[str]) -> list[tuple[Frame, OpRecord]]:
    """Return pairs of one pass and name their layers: the products first, then what lies between two of them.

    A version of torch that has one operator more beside every product would otherwise move the pairs of products.
    """
    anchors = [frame for frame in frames if common_name(frame.event.name) in names]
    products = frozenset(op.name for op in traced if op.operator.macs)
    at = [index for index, frame in enumerate(anchors) if common_name(frame.event.name) in products]
    of = [index for index, op in enumerate(traced) if op.name in products]
    matched = [
        (at[first], of[second])
        for first, second in _equal_names(
            [common_name(anchors[index].event.name) for index in at], [traced[index].name for index in of]
        )
    ]
    places = list[tuple[int, int]]()
    edges = [(-1, -1), *matched, (len(anchors), len(traced))]
    for (begin, first), (end, last) in pairwise(edges):
        between = [common_name(frame.event.name) for frame in anchors[begin + 1 : end]]
        of_trace = [op.name for op in traced[first + 1 : last]]
        places += [(begin + 1 + one, first + 1 + other) for one, other in _equal_names(between, of_trace)]
        places += [(end, last)] if end < len(anchors) else []
    pairs = [(anchors[one], traced[other].operator) for one, other in places]
    for frame, operator in pairs:
        frame.layer = operator.layer
    _name_holders(pairs)
    _fill(frames, {id(frame) for frame, _ in pairs})
    return pairs


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


def _equal_names(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Return the indexes of equal names in the same order; of equal lists every one."""
    if first == second:
        return [(index, index) for index in range(len(first))]
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    return [(block.a + offset, block.b + offset) for block in blocks for offset in range(block.size)]


def _fill(frames: Sequence[Frame], paired: set[int]) -> None:
    """Give operators between two pairs of one layer that layer."""
    before: str | None = None
    waiting: list[Frame] = []
    for frame in frames:
        if id(frame) not in paired:
            waiting.append(frame)
            continue
        if before is not None and before == frame.layer:
            for one_frame in waiting:
                one_frame.layer = before
        waiting, before = [], frame.layer
