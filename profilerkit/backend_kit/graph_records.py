"""The record of each operator of a graph: its cost, its bytes, and the operators whose results it reads."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Protocol

from ..trace.dtypes import product_dtype
from ..trace.records import OpRecord, TensorInfo
from .running_order import Countable, Numbered
from .scoped_calls import Scope

__all__ = ["list_reads", "make_record"]


class _Value(Numbered, Protocol):
    """A value of a graph."""

    @property
    def bytes(self) -> int:
        """The bytes that it takes; 0 where its shape is not known."""

    @property
    def info(self) -> TensorInfo:
        """Its shape and dtype."""


class _Ran(Protocol):
    """An operator that ran: the values that it reads, and the values that it makes."""

    @property
    def inputs(self) -> Sequence[_Value]: ...

    @property
    def outputs(self) -> Sequence[_Value]: ...


class _Counted(_Ran, Countable, Protocol):
    """An operator that ran, with its name and its work."""

    operator: str


def list_reads(
    executed: Iterable[_Ran], inputs: Iterable[Numbered], hidden: Container[int] = ()
) -> list[tuple[int, ...]]:
    """Return for each operator in reports the operators whose results it reads, in the form of `OpRecord.reads`.

    Args:
        executed: The operators in the order of execution.
        inputs: The values that the call gives.
        hidden: The places of operators that reports leave out: they pass on values of the operators before them.
    """
    makers: dict[int, tuple[int, ...]] = {value.number: (-1,) for value in inputs}
    reads: list[tuple[int, ...]] = []
    for index, op in enumerate(executed):
        sources = set[int]()
        for value in op.inputs:
            sources.update(makers.get(value.number, ()))
        in_order = tuple(sorted(sources))
        if index in hidden:
            makers.update((value.number, in_order) for value in op.outputs)
        else:
            makers.update((value.number, (len(reads),)) for value in op.outputs)
            reads.append(in_order)
    return reads


def make_record(
    op: _Counted,
    scope: Scope,
    reads: tuple[int, ...],
    *,
    node: tuple[str, str] | None = None,
    phase: str = "forward",
    is_masked: bool = False,
    multiplied: str | None = None,
    is_view: bool = False,
) -> OpRecord:
    """Return the record of one operator in a call of a layer; the other arguments are fields of `OpRecord`.

    ``multiplied`` is the dtype that a product multiplies where its inputs and outputs do not tell. A view, such as a
    reshape, shares the buffer of its input and moves no bytes.
    """
    outputs, times = tuple(value.info for value in op.outputs), 0 if is_view else op.times
    if op.macs and outputs and multiplied is None:
        multiplied = product_dtype([value.info.dtype for value in op.inputs], outputs[0].dtype)
    return OpRecord(
        operator=op.operator,
        layer=scope.path,
        call=scope.call,
        macs=op.macs,
        flops=op.flops,
        bytes_read=sum(value.bytes for value in op.inputs) * times,
        bytes_written=sum(value.bytes for value in op.outputs) * times,
        outputs=outputs,
        phase=phase,
        is_masked=is_masked,
        product_dtype=multiplied,
        node=node,
        reads=reads,
        missing=op.missing,
    )
