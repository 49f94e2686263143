"""The work of each timed operator: the calls in a profiler's recording, joined with operators of the static trace.

Both have the same operators of a layer in the same order, but not always at the same depth: if the trace has the inner
operators that an operator calls, the operator gets their work. So, layer by layer:

1. Each recorded call claims an operator of the trace: the operator of its name, or the operators of the calls inside.
2. An operator that is claimed as often as it ran gives its records to the calls, in order.
3. Unclaimed operators go to the only row whose call has no operator's name: a kernel that does the work of several
   operators.

A row that cannot be joined has no counts, and a reason; the layer as a whole then still has the counts of the trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..count_text import format_count
from ..times.operator_times import CalledOperator, OperatorTime, OperatorTimes, OperatorTimeTable, OrderedCall, Work
from ..trace.layer_operators import find_layer_type
from ..trace.layer_paths import walk_outwards
from ..trace.records import ModelTrace, OpRecord

__all__ = ["operator_table"]

_NOT_TRACED = "the static trace has no such operator in this layer"


def operator_table(times: OperatorTimes, traces: Mapping[str, ModelTrace | str]) -> OperatorTimeTable:
    """Return the times of operators with the MACs and FLOPs that a trace has for them.

    Args:
        times: The times that a backend measured.
        traces: The trace with the counts of each phase, or the reason why there is none.
    """
    rows = [_Row(op) for op in times.operators]
    layer_work: dict[tuple[str, str], Work] = {}
    for phase in dict.fromkeys([*times.whole, *(op.phase for op in times.operators)]):
        rows_of_phase = [row for row in rows if row.time.phase == phase]
        trace = _require_phase(traces.get(phase, "there is no static trace of it"), phase)
        if isinstance(trace, str):
            for row in rows_of_phase:
                row.add_reason(trace)
        else:
            traced = _TracedWork(trace, phase, times)
            _fill_rows(rows_of_phase, traced)
            layer_work |= {(phase, path): layer for path, layer in traced.sum_layers()}
    return OperatorTimeTable(times, [row.work for row in rows], layer_work)


def _require_phase(trace: ModelTrace | str, phase: str) -> ModelTrace | str:
    """Return a trace, or the reason why it says nothing of a phase."""
    if isinstance(trace, str):
        return trace
    if trace.failure is not None:
        return f"the static trace failed: {trace.failure}"
    if trace.operators and not any(op.phase == phase for op in trace.operators):
        return f"not counted: the static trace does not say which operators are {phase}"
    return trace


@dataclass(eq=False)
class _Row:
    """One row of the table: the records of the trace for its calls, or the reasons why some are missing."""

    time: OperatorTime
    records: list[OpRecord] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def calls(self) -> Sequence[OrderedCall]:
        """The calls of the row; if the row does not have them, calls that have only the operator's name."""
        return self.time.called or (OrderedCall(0, CalledOperator(self.time.operator)),) * self.time.calls

    @property
    def work(self) -> Work:
        """The work of the records; None where some are missing."""
        return Work(None, None, "; ".join(self.reasons)) if self.reasons else _sum_records(self.records)

    def add_reason(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)


class _OperatorKey(NamedTuple):
    """An operator of the trace, all calls of it in one layer."""

    layer: str
    name: str


class _Claim(NamedTuple):
    """A call that wants a record of the trace: its place in the order of the layer's calls, and its row."""

    order: int
    row: _Row


class _Match(NamedTuple):
    """The operators of the trace that a call stands for, and whether these are all of its work."""

    operators: Sequence[_OperatorKey]
    is_all: bool


def _fill_rows(rows: Sequence[_Row], traced: _TracedWork) -> None:
    """Give each row its records, or the reasons why it has none."""
    for row in rows:
        cover = traced.explain_cover(row.time.layer)
        if cover:
            row.add_reason(cover)
    claims: dict[_OperatorKey, list[_Claim]] = defaultdict(list)
    strangers: dict[str, list[_Row]] = defaultdict(list)  # by layer, the rows whose calls are more than their claims
    calls = [(call, row) for row in rows if not row.reasons for call in row.calls]
    for call, row in sorted(calls, key=lambda item: item[0].order):
        layer = row.time.layer
        match = _find_match(call.operator, layer, traced)
        for key in match.operators:
            claims[key].append(_Claim(call.order, row))
        if not match.is_all and row not in strangers[layer]:
            strangers[layer].append(row)
    for key, claims_of_key in claims.items():
        _give_records(key.name, traced.records[key], claims_of_key)
    for layer, strange_rows in strangers.items():
        unclaimed = [key for key in traced.records if key.layer == layer and key not in claims]
        rest = [record for key in unclaimed for record in traced.records[key]]
        _give_rest(strange_rows, rest, traced.left_out.get(layer))


def _find_match(called: CalledOperator, layer: str, traced: _TracedWork) -> _Match:
    """Return the operator of the trace for a call in a layer, or the operators for the calls inside it."""
    if called.is_free:
        return _Match((), is_all=True)
    layer = layer if called.layer is None else called.layer
    key = _OperatorKey(layer, called.name)
    if key in traced.records:
        return _Match((key,), is_all=True)
    inside = [_find_match(inner, layer, traced) for inner in called.inside]
    operators = [key for match in inside for key in match.operators]
    return _Match(operators, is_all=bool(operators) and all(match.is_all for match in inside))


def _give_rest(rows: Sequence[_Row], rest: Sequence[OpRecord], left_out: str | None) -> None:
    """Give the records that no call of a layer claimed to its one row of an unknown name; else say why not.

    ``left_out`` is the layer that is left out of the trace there, if one is.
    """
    is_known = len(rows) == 1 and bool(rows[0].time.called) and left_out is None
    if is_known and not _explain_missing(rest) and any(op.flops for op in rest):
        rows[0].records += rest  # one kernel did the work of several operators of the trace
        return
    for row in rows:
        row.add_reason(_NOT_TRACED if left_out is None else f"layer {left_out!r} is left out by ignore=")


def _give_records(name: str, records: Sequence[OpRecord], claims: Sequence[_Claim]) -> None:
    """Give the calls of an operator its records, in order; or all of them the reason why that is not known."""
    reason = _explain_mismatch(name, records, claims)
    if reason:
        for claim in claims:
            claim.row.add_reason(reason)
    else:
        for claim, record in zip(claims, records, strict=True):
            claim.row.records.append(record)


def _explain_mismatch(name: str, records: Sequence[OpRecord], claims: Sequence[_Claim]) -> str:
    """Return why it is not known which call has which record of an operator; empty where it is known."""
    missing = _explain_missing(records)
    if missing:
        return missing
    if len(claims) != len(records):
        traced, profiled = format_count(len(records), "call"), format_count(len(claims), "call")
        return f"the static trace has {traced} of {name} in this layer, the profiler {profiled}"
    is_one_row = len({id(claim.row) for claim in claims}) == 1
    is_in_order = len({claim.order for claim in claims}) == len(claims)
    is_equal_work = len({(op.macs, op.flops) for op in records}) == 1
    if is_one_row or is_in_order or is_equal_work:
        return ""
    return f"which of the {len(records)} calls of {name} in this layer is which is not known"


# The records of the trace ---------------------------------------------------------------------------------------------


class _TracedWork:
    """The operators of one phase of a static trace, as a profiler can see them: by the layer that ran, and by name.

    Attributes:
        records: The records that timed operators can have. Of a layer that a formula covers, that is the formula's
            record alone: no call has its name, so it goes to a kernel that does the work of several layers.
        left_out: The layers that are left out, by the layer that the profiler saw them in.
    """

    def __init__(self, trace: ModelTrace, phase: str, times: OperatorTimes) -> None:
        self._ran = times.layers.get(phase, frozenset())
        traced = [op for op in trace.operators if op.phase == phase and not _is_left_out(op, trace)]
        #: The layers that a formula counts as a whole, each with its type.
        self._covered = {op.layer: kind for op in traced if (kind := find_layer_type(op.operator)) is not None}
        self.left_out = {self._find_executed_layer(layer.path): layer.path for layer in reversed(trace.left_out)}
        self.records: dict[_OperatorKey, list[OpRecord]] = defaultdict(list)
        #: All records of a layer.
        self._whole: dict[str, list[OpRecord]] = defaultdict(list)
        for op in traced:
            layer, name = self._find_executed_layer(op.layer), times.name_of(op.operator)
            self._whole[layer].append(op)
            if not self.explain_cover(op.layer) or find_layer_type(op.operator) is not None:
                self.records[_OperatorKey(layer, name)].append(op)

    def sum_layers(self) -> Iterator[tuple[str, Work]]:
        """Yield the path and work of each layer, without the layers inside it."""
        for path, records in self._whole.items():
            why = "" if path in self._covered else self.explain_cover(path)
            why = why or _explain_missing(records)
            yield path, Work(None, None, why) if why else _sum_records(records)

    def _find_executed_layer(self, path: str) -> str:
        """Return the innermost layer around a path that the profiler saw: fused kernels do not call inner layers."""
        return next((layer for layer in walk_outwards(path) if layer in self._ran), path)

    def explain_cover(self, path: str) -> str:
        """Return why a layer's operators have no counts: a layer's formula covers them; empty if none does."""
        by = next((layer for layer in walk_outwards(path) if layer in self._covered), None)
        return "" if by is None else f"counted with the whole of layer {by!r}, by the formula of {self._covered[by]}"


def _is_left_out(op: OpRecord, trace: ModelTrace) -> bool:
    """Return whether `without_layers` has made an operator one of the layer around its own, which costs nothing."""
    return bool(trace.left_out) and op.call < 0 and not op.flops


def _sum_records(records: Sequence[OpRecord]) -> Work:
    """Return the work of records together."""
    return Work(sum(op.macs for op in records), sum(op.flops for op in records))


def _explain_missing(records: Sequence[OpRecord]) -> str:
    """Return the uncounted work of records; empty if all is counted."""
    missing = sorted({op.missing for op in records if op.missing})
    return f"not counted: {', '.join(missing)}" if missing else ""
