"""Which layers operators work for where the profile names none: the trace has the same operators in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.trace.records import OpRecord

from .events import Frame, Kind

__all__ = ["name_layers_by_operators", "profiled_name"]

#: The least share of the trace's products that a profile of the same model has.
_LEAST = 0.5


def profiled_name(traced: str) -> str:
    """Return what the profiler calls an operator of the trace.

    >>> profiled_name("aten.mm.default"), profiled_name("aten::mm")
    ('aten::mm', 'aten::mm')
    """
    space, _, rest = traced.partition(".")
    return traced if "::" in traced or not rest else f"{space}::{rest.rpartition('.')[0] or rest}"


def name_layers_by_operators(
    frames: Sequence[Frame], windows: Sequence[tuple[float, float]], trace: ModelTrace
) -> list[tuple[Frame, OpRecord]]:
    """Give frames of operators the layers of the trace's operators that they are; return the pairs.

    Each pass is aligned with the trace: equal names in the same order are pairs. An operator between two pairs of one
    layer is that layer's too. Raises `ProfileFileError` if too few of the trace's products are in the profile.
    """
    traced = [operator for operator in trace.operators if operator.phase == "forward"]
    names = [profiled_name(operator.operator) for operator in traced]
    known = frozenset(names)
    pairs: list[tuple[Frame, OpRecord]] = []
    for start, end in windows:
        inside = [frame for frame in frames if start <= frame.event.start < end]
        pairs += _aligned(_outermost(inside, known), traced, names, known)
    products = sum(operator.macs > 0 for operator in traced) * len(windows)
    matched = sum(operator.macs > 0 for _, operator in pairs)
    if matched < _LEAST * products or not pairs:
        raise ProfileFileError(
            f"the profile is of another model: {matched} of the {products} products that the model has in "
            f"{len(windows)} passes are found in it by their names and order; give the model that was profiled, or "
            "make the profile with the script of 'profilerkit trace-script', which names the layers"
        )
    return pairs


def _outermost(frames: Sequence[Frame], known: frozenset[str]) -> list[Frame]:
    """Return the operators that the trace may have, of nested ones the outer, and outermost ones that it has not."""
    kept: list[Frame] = []
    taken: set[int] = set()
    holders = {id(each) for frame in frames if frame.event.name in known for each in frame.around if each is not frame}
    for frame in frames:
        if frame.event.kind is not Kind.OPERATOR or frame.is_backward:
            continue
        if any(id(each) in taken for each in frame.around):
            continue
        if frame.event.name in known or id(frame) not in holders:
            kept.append(frame)
            taken.add(id(frame))
    return kept


def _aligned(
    frames: Sequence[Frame], traced: Sequence[OpRecord], names: Sequence[str], known: frozenset[str]
) -> list[tuple[Frame, OpRecord]]:
    anchors = [frame for frame in frames if frame.event.name in known]
    blocks = SequenceMatcher(None, [frame.event.name for frame in anchors], names, autojunk=False)
    pairs = [
        (anchors[match.a + offset], traced[match.b + offset])
        for match in blocks.get_matching_blocks()
        for offset in range(match.size)
    ]
    for frame, operator in pairs:
        frame.layer = operator.layer
    _fill(frames, {id(frame) for frame, _ in pairs})
    return pairs


def _fill(frames: Sequence[Frame], paired: set[int]) -> None:
    """Give operators between two pairs of one layer that layer."""
    before: str | None = None
    waiting: list[Frame] = []
    for frame in frames:
        if id(frame) not in paired:
            waiting.append(frame)
            continue
        if before is not None and before == frame.layer:
            for each in waiting:
                each.layer = before
        waiting, before = [], frame.layer
