"""The record of each operator of a graph: its cost, its bytes, and the operators whose results it reads."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from operator import attrgetter
from typing import Protocol

from ..trace.dtypes import product_dtype
from ..trace.records import OpRecord
from .graph_work import GraphValue
from .running_order import Countable
from .scoped_calls import Scope, read_info

__all__ = ["list_reads", "list_reads_by_number", "make_record"]


class _Ran(Protocol):
    """An operator that ran: the values that it reads, and the values that it makes."""

    @property
    def inputs(self) -> Sequence[GraphValue]: ...

    @property
    def outputs(self) -> Sequence[GraphValue]: ...


class _Counted(_Ran, Countable, Protocol):
    """An operator that ran, with its name and its work."""

    operator: str


def list_reads(executed: Iterable[_Ran], inputs: Iterable[GraphValue]) -> list[tuple[int, ...]]:
    """Return for each operator those whose results it reads, as `OpRecord.reads` has them."""
    steps = [(map(_read_number, op.inputs), map(_read_number, op.outputs)) for op in executed]
    return list_reads_by_number(steps, map(_read_number, inputs))


def list_reads_by_number(
    steps: Iterable[tuple[Iterable[int], Iterable[int]]],
    inputs: Iterable[int],
    hidden: Container[int] = (),
) -> list[tuple[int, ...]]:
    """Return for each operator in reports the operators whose results it reads, in the form of `OpRecord.reads`.

    Args:
        steps: The numbers of the values that each operator reads and makes, in the order of execution.
        inputs: The numbers of the values that the call gives.
        hidden: The places of operators that reports leave out: they pass on values of the operators before them.
    """
    makers: dict[int, tuple[int, ...]] = dict.fromkeys(inputs, (-1,))
    reads: list[tuple[int, ...]] = []
    for index, (taken, made) in enumerate(steps):
        sources = set[int]()
        for number in taken:
            sources.update(makers.get(number, ()))
        in_order = tuple(sorted(sources))
        if index in hidden:
            makers.update(dict.fromkeys(made, in_order))
        else:
            makers.update(dict.fromkeys(made, (len(reads),)))
            reads.append(in_order)
    return reads


_read_number: Callable[[GraphValue], int] = attrgetter("number")
_read_bytes: Callable[[GraphValue], int] = attrgetter("bytes")


def make_record(
    op: _Counted,
    scope: Scope,
    reads: tuple[int, ...],
    *,
    node: tuple[str, str] | None = None,
    phase: str = "forward",
    is_masked: bool = False,
    multiplied: str | None = None,
) -> OpRecord:
    """Return the record of one operator in a call of a layer; the other arguments are fields of `OpRecord`.

    ``multiplied`` is the dtype that a product multiplies where its inputs and outputs do not tell.
    """
    infos = tuple(map(read_info, op.outputs))
    if op.macs and multiplied is None:
        multiplied = product_dtype([value.info.dtype for value in op.inputs], infos[0].dtype)
    return OpRecord(
        operator=op.operator,
        layer=scope.path,
        call=scope.call,
        macs=op.macs,
        flops=op.flops,
        bytes_read=sum(map(_read_bytes, op.inputs)) * op.times,
        bytes_written=sum(map(_read_bytes, op.outputs)) * op.times,
        outputs=infos,
        phase=phase,
        is_masked=is_masked,
        product_dtype=multiplied,
        node=node,
        reads=reads,
        missing=op.missing,
    )
