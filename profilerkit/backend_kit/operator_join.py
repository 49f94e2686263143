"""The work of each timed operator: the calls in a profiler's recording, joined with those of the static trace.

Both have the same operators of a layer in the same order, but not always at the same depth: if the trace has the inner
operators that an operator calls, the operator gets their work. A row that cannot be joined has no counts, and a reason;
the layer as a whole then still has the counts of the trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import msgspec

from ..count_text import format_count
from ..times.operator_times import CalledOperator, OperatorTime, OperatorTimes, OperatorTimeTable, Work
from ..trace.layer_operators import find_layer_type
from ..trace.layer_paths import walk_outwards
from ..trace.records import ModelTrace, OpRecord

__all__ = ["operator_table"]

_NOT_TRACED = "the static trace has no such operator in this layer"
_LEFT_OUT = "the layer is left out by ignore="


def operator_table(times: OperatorTimes, traces: Mapping[str, ModelTrace | str]) -> OperatorTimeTable:
    """Return the times of operators with the MACs and FLOPs that a trace has for them.

    Args:
        times: The times that a backend measured.
        traces: The trace with the counts of each phase, or the reason why there is none.
    """
    work = [Work(None, None)] * len(times.operators)
    layer_work: dict[tuple[str, str], Work] = {}
    for phase in times.whole:
        trace = _require_phase(traces.get(phase, "there is no static trace of it"), phase)
        indices = [index for index, op in enumerate(times.operators) if op.phase == phase]
        if isinstance(trace, ModelTrace) and trace.failure is None:
            join = _Join(trace, phase, times)
            works = join.find_work([times.operators[index] for index in indices])
            layer_work |= {(phase, path): counted for path, counted in join.sum_layers()}
        else:
            why = trace if isinstance(trace, str) else f"the static trace failed: {trace.failure}"
            works = [Work(None, None, why)] * len(indices)
        for index, counted in zip(indices, works, strict=True):
            work[index] = counted
    return OperatorTimeTable(times, work, layer_work)


def _require_phase(trace: ModelTrace | str, phase: str) -> ModelTrace | str:
    """Return a trace, or the reason why it says nothing of a phase."""
    if isinstance(trace, str) or trace.failure is not None or not trace.operators:
        return trace
    if any(op.phase == phase for op in trace.operators):
        return trace
    return f"not counted: the static trace does not say which operators are {phase}"


@dataclass(eq=False)
class _Row:
    """One row of the table: the records of the trace for its calls, and the reasons why some are missing."""

    time: OperatorTime
    records: list[OpRecord] = field(default_factory=list)
    missing: dict[str, None] = field(default_factory=dict)

    @property
    def calls(self) -> Sequence[tuple[int, CalledOperator]]:
        """The calls of the row; if the row does not have them, calls that have only the operator's name."""
        return self.time.called or ((0, CalledOperator(self.time.operator)),) * self.time.calls

    @property
    def work(self) -> Work:
        """The work of the records; None where some are missing."""
        return Work(None, None, "; ".join(self.missing)) if self.missing else _sum_records(self.records)


class _Taker(NamedTuple):
    """A call that wants a record of the trace: its place in the order of the layer's calls, and its row."""

    order: int
    row: _Row


#: The calls that want the records of an operator, by the layer and the operator's name.
_Takers: TypeAlias = defaultdict[tuple[str, str], list[_Taker]]


class _Join:
    """The records of one phase of a trace, by the layer that ran and the name of the operator."""

    def __init__(self, trace: ModelTrace, phase: str, times: OperatorTimes) -> None:
        self._ran = times.layers.get(phase, frozenset())
        self._left_out = {layer.path for layer in trace.left_out}
        self._records: dict[str, dict[str, list[OpRecord]]] = defaultdict(lambda: defaultdict(list))
        #: All records of a layer, also those of formulas for whole layers.
        self._whole: dict[str, list[OpRecord]] = defaultdict(list)
        #: The layers that a formula counts as a whole, each with its type.
        self._covered: dict[str, str] = {}
        for traced in trace.operators:
            if traced.phase != phase:
                continue
            op = msgspec.structs.replace(traced, operator=times.name_of(traced.operator))
            layer = self._find_executed_layer(op.layer)
            self._whole[layer].append(op)
            layer_type = find_layer_type(op.operator)
            if layer_type is not None:
                self._covered[op.layer] = layer_type
            else:
                self._records[layer][op.operator].append(op)

    def _find_executed_layer(self, path: str) -> str:
        """Return the innermost layer around a path that the profiler saw: fused kernels do not call inner layers."""
        return next((layer for layer in walk_outwards(path) if layer in self._ran), path)

    def sum_layers(self) -> Iterator[tuple[str, Work]]:
        """Yield the path and work of each layer, without the layers inside it."""
        for path, records in self._whole.items():
            uncounted = sorted({op.operator for op in records if op.missing})
            why = "" if path in self._covered else self._explain_cover(path)
            if not why and uncounted:
                why = _explain_no_formula(uncounted)
            yield path, Work(None, None, why) if why else _sum_records(records)

    def find_work(self, times: Sequence[OperatorTime]) -> list[Work]:
        """Return the work of each row."""
        rows = [_Row(time) for time in times]
        covers = {layer: self._explain_cover(layer) for layer in {time.layer for time in times}}
        for row in rows:
            if covers[row.time.layer]:
                row.missing[covers[row.time.layer]] = None
        self._join([row for row in rows if not row.missing])
        return [row.work for row in rows]

    def _explain_cover(self, path: str) -> str:
        """Return why a layer's operators have no counts: a layer's formula covers them; empty if none does."""
        by = next((layer for layer in walk_outwards(path) if layer in self._covered), None)
        return "" if by is None else f"counted with the whole of layer {by!r}, by the formula of {self._covered[by]}"

    def _join(self, rows: Sequence[_Row]) -> None:
        """Assign the records of the trace to the calls of the profiler, layer by layer, in order."""
        takers: _Takers = defaultdict(list)
        unknown: dict[str, list[_Row]] = defaultdict(list)
        calls = [(_Taker(order, row), called) for row in rows for order, called in row.calls]
        for taker, called in sorted(calls, key=lambda call: call[0].order):
            layer = taker.row.time.layer
            if not self._match(called, layer, taker, takers) and taker.row not in unknown[layer]:
                unknown[layer].append(taker.row)
        for (layer, name), matching in takers.items():
            records = self._records[layer][name]
            reason = self._explain_mismatch(name, records, matching)
            for index, taker in enumerate(matching):
                if reason:
                    taker.row.missing[reason] = None
                else:
                    taker.row.records.append(records[index])
        for layer, strangers in unknown.items():
            self._join_rest(layer, strangers, takers)

    def _match(self, called: CalledOperator, layer: str, taker: _Taker, takers: _Takers) -> bool:
        """Note which records a call wants, or the calls inside it; return whether these cover all its work."""
        if called.is_free:
            return True
        layer = layer if called.layer is None else called.layer
        if called.name in self._records.get(layer, ()):
            takers[layer, called.name].append(taker)
            return True
        before = sum(map(len, takers.values()))
        inside = [self._match(inner, layer, taker, takers) for inner in called.inside]
        return all(inside) and sum(map(len, takers.values())) > before

    def _explain_mismatch(self, name: str, records: Sequence[OpRecord], matching: Sequence[_Taker]) -> str:
        """Return why it is not known which call has which record of an operator; empty where it is known."""
        if any(op.missing for op in records):
            return _explain_no_formula([name])
        if len(matching) != len(records):
            traced, profiled = _format_calls(records), _format_calls(matching)
            return f"the static trace has {traced} of {name} in this layer, the profiler {profiled}"
        is_one_row = len({id(taker.row) for taker in matching}) == 1
        is_in_order = len({taker.order for taker in matching}) == len(matching)
        is_equal_work = len({(op.macs, op.flops) for op in records}) == 1
        if is_one_row or is_in_order or is_equal_work:
            return ""
        return f"which of the {len(records)} calls of {name} in this layer is which is not known"

    def _join_rest(self, layer: str, unknown: Sequence[_Row], takers: _Takers) -> None:
        """Give what is left of a layer's records to the one row that did work of another name; else say it is not."""
        rest = [op for name, records in self._records[layer].items() if (layer, name) not in takers for op in records]
        is_counted = not any(op.missing for op in rest)
        is_known = len(unknown) == 1 and bool(unknown[0].time.called)
        if is_known and is_counted and any(op.flops for op in rest):
            unknown[0].records += rest  # one kernel did the work of several operators of the trace
            return
        for row in unknown:
            row.missing[_LEFT_OUT if layer in self._left_out else _NOT_TRACED] = None


def _sum_records(records: Sequence[OpRecord]) -> Work:
    return Work(sum(op.macs for op in records), sum(op.flops for op in records))


def _explain_no_formula(names: Sequence[str]) -> str:
    return f"no cost formula is known for {', '.join(names)}"


def _format_calls(calls: Sequence[object]) -> str:
    return format_count(len(calls), "call")
