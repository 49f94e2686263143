"""The records of executed operators, and which operators reports show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from profilerkit.backend_kit.graph_records import list_reads_by_number
from profilerkit.trace.dtypes import product_dtype
from profilerkit.trace.records import OpRecord, TensorInfo

from ..costs.registry import COSTS
from .tensor_facts import PartialShape
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


def select_shown(executed: Sequence[Executed], live_bytes: Sequence[int], inputs: Iterable[int] = ()) -> _Shown:
    """Return the executed operators that reports show.

    ``live_bytes`` has a number for each executed operator, ``inputs`` the numbers of the values that the call gives.
    """
    hidden = {index for index, op in enumerate(executed) if op.silent or op.type in BOOKKEEPING}
    shown = [index for index in range(len(executed)) if index not in hidden]
    steps = ((op.inputs, [output.number for output in op.outputs]) for op in executed)
    reads = list_reads_by_number(steps, inputs, hidden)
    records = [_record(executed[index], op_reads) for index, op_reads in zip(shown, reads, strict=True)]
    return _Shown(tuple(records), tuple(live_bytes[index] for index in shown))


def _record(op: Executed, reads: tuple[int, ...]) -> OpRecord:
    """Return the record of one operator."""
    outputs = tuple(TensorInfo(_write_sizes(output.shape), output.dtype) for output in op.outputs)
    return OpRecord(
        operator=op.type,
        layer=op.owner.path,
        call=op.owner.call,
        macs=op.macs,
        flops=op.flops,
        bytes_read=op.input_bytes * op.times,
        bytes_written=sum(output.bytes for output in op.outputs) * op.times,
        outputs=outputs,
        phase="backward" if op.is_backward else "forward",
        product_dtype=product_dtype(op.input_dtypes, outputs[0].dtype) if op.macs and outputs else None,
        reads=reads,
        missing=op.missing,
    )


def _write_sizes(shape: PartialShape) -> tuple[int, ...]:
    """Return a shape for reports, with -1 for a size that is not known."""
    return () if shape is None else tuple(-1 if size is None else size for size in shape)


def count_operator_macs(executed: Iterable[Executed]) -> int | None:
    """Return the multiply-accumulates of all operators; None if formulas of the user's stand for whole layers."""
    if any(hasattr(key, "layer") for key in COSTS.list_added()):
        return None
    return sum(op.macs for op in executed)
