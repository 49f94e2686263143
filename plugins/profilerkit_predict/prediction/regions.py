"""The parts of a trace that run as one kernel: operators that a compiler fuses, and whole recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import ModelTrace, OpRecord

from .moved_bytes import count_moved_bytes
from .operator_kinds import find_family, is_free

__all__ = ["Region", "find_regions", "join_recurrences"]

#: The types of layers that run as one kernel.
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
#: Fewer operators in a phase of such a layer are taken to be the kernel itself, with what is around it.
_LEAST_OPERATORS = 3
#: The families of operators that do not join the region before them.
_ALONE = frozenset(("gather", "pooling", "average pooling", "upsampling", "reduction", "random"))


@dataclass(frozen=True, slots=True)
class Region:
    """Operators that run as one kernel: one, or several that a compiler fuses; the bytes that they move."""

    operators: tuple[OpRecord, ...]
    moved_bytes: float

    @property
    def head(self) -> OpRecord:
        """The first operator; one with multiply-accumulates is a region by itself."""
        return self.operators[0]


def find_regions(operators: Iterable[OpRecord], *, fused: bool) -> Iterator[Region]:
    """Yield the regions of a trace: each operator by itself, or as a compiler fuses them; without those that are free.

    The rule of fusion: an operator with products is a kernel of a library, by itself. Another operator joins the region
    before it if that has no products, it runs in the same phase, moves bytes, and its first output has as many elements
    as that of the operator before. What the region passes on inside is neither written nor read: each join takes the
    bytes of that output off twice.
    """
    group: list[OpRecord] = []
    moved = 0.0
    for operator in operators:
        if is_free(operator):
            continue
        passed_on = _count_passed_bytes(group[-1], operator) if fused and group else None
        if passed_on is not None:
            group.append(operator)
            moved += max(0.0, count_moved_bytes(operator) - 2 * passed_on)
            continue
        if group:
            yield Region(tuple(group), moved)
        group, moved = [operator], count_moved_bytes(operator)
    if group:
        yield Region(tuple(group), moved)


def _count_passed_bytes(before: OpRecord, operator: OpRecord) -> float | None:
    """Return the bytes that an operator takes over from the one before it in a region; None if it does not join."""
    if operator.macs or before.macs or operator.phase != before.phase or not before.outputs or not operator.outputs:
        return None
    if find_family(operator) in _ALONE:
        return None
    elements = math.prod(before.outputs[0].shape)
    if elements != math.prod(operator.outputs[0].shape) or elements < 1:
        return None
    return elements * element_bytes(before.outputs[0].dtype)


def join_recurrences(trace: ModelTrace) -> Iterator[OpRecord]:
    """Yield the operators of a trace, those of a recurrent layer as one for each phase: frameworks run one kernel.

    A trace may have such a layer step by step. The one operator has their work, moves the weights and the output once,
    and has as many rows as the output of the layer.
    """
    layers = {layer.path: layer for layer in trace.layers if layer.type in _RECURRENT and layer.calls}
    for (path, phase), group in groupby(trace.operators, key=lambda operator: (operator.layer, operator.phase)):
        operators = tuple(group)
        outputs = layers[path].calls[0].outputs if path in layers else ()
        is_one_kernel = phase == "forward" and len(operators) < _LEAST_OPERATORS
        if is_one_kernel or not outputs:
            yield from operators
            continue
        layer = layers[path]
        yield OpRecord(
            operator=layer.type.lower() + ("_backward" if phase == "backward" else ""),
            layer=path,
            call=0,
            macs=sum(operator.macs for operator in operators),
            flops=sum(operator.flops for operator in operators),
            bytes_read=sum(weight.bytes for weight in layer.parameters),
            bytes_written=int(math.prod(outputs[0].shape) * element_bytes(outputs[0].dtype)),
            outputs=outputs[:1],
            phase=phase,
        )
