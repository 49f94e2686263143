"""The records of executed operators, and which operators reports show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from profilerkit.backend_kit.graph_records import list_reads, make_record
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.trace.records import OpRecord

from ..costs.registry import COSTS
from .kernel_memory import find_shared_input
from .tensor_facts import Tensor
from .values import Executed

__all__ = ["BOOKKEEPING", "count_operator_macs", "select_shown"]


#: Operators that hand data on, read a weight or only keep the graph going: they do no work and get no record.
BOOKKEEPING = frozenset(
    (
        *("Const", "Identity", "IdentityN", "NoOp", "ReadVariableOp", "VarHandleOp", "StopGradient", "PreventGradient"),
        *("Reshape", "Squeeze", "ExpandDims", "Shape", "ShapeN", "Size", "Rank", "ZerosLike"),
    )
)


class _Shown(NamedTuple):
    """The operators that reports show, and the bytes alive while each of them runs."""

    operators: tuple[OpRecord, ...]
    live_bytes: tuple[int, ...]


def select_shown(executed: Sequence[Executed], live_bytes: Sequence[int], inputs: Iterable[Tensor]) -> _Shown:
    """Return the executed operators that reports show.

    ``live_bytes`` has a number for each executed operator, ``inputs`` are the tensors that the call gives.
    """
    hidden = {index for index, op in enumerate(executed) if op.silent or op.operator in BOOKKEEPING}
    shown = [index for index in range(len(executed)) if index not in hidden]
    reads = list_reads(executed, [tensor for tensor in inputs if tensor.bytes], hidden)
    records = [_record(executed[index], op_reads) for index, op_reads in zip(shown, reads, strict=True)]
    return _Shown(tuple(records), tuple(live_bytes[index] for index in shown))


def _record(op: Executed, reads: tuple[int, ...]) -> OpRecord:
    """Return the record of one operator."""
    phase = "backward" if op.is_backward else "forward"
    shared = [find_shared_input(op.operator, index, op.inputs, output) for index, output in enumerate(op.outputs)]
    is_view = bool(shared) and None not in shared
    return make_record(op, Scope(op.owner.path, op.owner.call), reads, phase=phase, is_view=is_view)


def count_operator_macs(executed: Iterable[Executed]) -> int | None:
    """Return the multiply-accumulates of all operators; None if formulas of the user's stand for whole layers."""
    if any(hasattr(key, "layer") for key in COSTS.list_added()):
        return None
    return sum(op.macs for op in executed)
