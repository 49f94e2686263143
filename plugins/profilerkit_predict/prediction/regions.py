"""Operators that run as one kernel: regions that a compiler fuses, and the steps of a recurrent layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import filterfalse, groupby

from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import LayerRecord, ModelTrace, OpRecord

from .kinds import find_family
from .operators import count_moved_bytes, is_free

#: The types of layers that run as one kernel.
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
#: If a phase of a recurrent layer has fewer operators, they are assumed to be the kernel and operators around it.
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

    def join(self, operator: OpRecord, passed_bytes: float) -> Region:
        """Return the region with one more operator; the tensor between both is neither written nor read."""
        moved = max(0.0, count_moved_bytes(operator) - 2 * passed_bytes)
        return Region((*self.operators, operator), self.moved_bytes + moved)


def find_regions(operators: Iterable[OpRecord], *, fused: bool) -> list[Region]:
    """Return the regions of a trace: each operator by itself, or as a compiler fuses them; without free operators.

    The rule of fusion: an operator with products is a kernel of a library, by itself. Another operator joins the region
    before it if the region has no products, the operator runs in the same phase, moves bytes, and its first output has
    as many elements as the first output of the operator before.
    """
    regions: list[Region] = []
    for operator in filterfalse(is_free, operators):
        passed_bytes = _count_passed_bytes(regions[-1].operators[-1], operator) if fused and regions else None
        if passed_bytes is None:
            regions.append(Region((operator,), count_moved_bytes(operator)))
        else:
            regions[-1] = regions[-1].join(operator, passed_bytes)
    return regions


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
    """Yield the operators of a trace, a recurrent layer as one operator for each phase: frameworks run one kernel.

    A trace may have a recurrent layer step by step. The joined operator has the work of all steps, moves the weights
    and the output once, and has as many rows as the output of the layer.
    """
    layers = {layer.path: layer for layer in trace.layers if layer.type in _RECURRENT and layer.calls}
    for (path, phase), group in groupby(trace.operators, key=lambda operator: (operator.layer, operator.phase)):
        operators = tuple(group)
        is_one_kernel = phase == "forward" and len(operators) < _LEAST_OPERATORS
        if path in layers and layers[path].calls[0].outputs and not is_one_kernel:
            yield _join_operators(layers[path], phase, operators)
        else:
            yield from operators


def _join_operators(layer: LayerRecord, phase: str, operators: Sequence[OpRecord]) -> OpRecord:
    """Return the operators of a recurrent layer in one phase as one operator."""
    output = layer.calls[0].outputs[0]
    return OpRecord(
        operator=layer.type.lower() + ("_backward" if phase == "backward" else ""),
        layer=layer.path,
        call=0,
        macs=sum(operator.macs for operator in operators),
        flops=sum(operator.flops for operator in operators),
        bytes_read=sum(weight.bytes for weight in layer.parameters),
        bytes_written=int(math.prod(output.shape) * element_bytes(output.dtype)),
        outputs=(output,),
        phase=phase,
    )
