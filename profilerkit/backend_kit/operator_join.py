"""The work of each timed operator: the calls in a profiler's recording, joined with those of the static trace.

Both have the same operators of a layer in the same order, but not always at the same depth: if the trace has the inner
operators that an operator calls, the operator gets their work. A row that cannot be joined has no counts, and a reason;
the layer as a whole then still has the counts of the trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..times.operator_times import CalledOperator, OperatorTime, OperatorTimes, OperatorTimeTable, Work
from ..trace.records import ModelTrace, OpRecord

__all__ = ["operator_table"]

_OF_A_LAYER = ("module::", "layer::")
_NOT_TRACED = "the static trace has no such operator in this layer"


def operator_table(times: OperatorTimes, traces: Mapping[str, ModelTrace | str]) -> OperatorTimeTable:
    """Return the times of operators with the MACs and FLOPs that a trace has for them.

    Args:
        times: The times that a backend measured.
        traces: The trace with the counts of each phase, or the reason why there is none.
    """
    work: list[Work | None] = [None] * len(times.operators)
    layer_work: dict[tuple[str, str], Work] = {}
    for phase in times.whole:
        trace = _of_phase(traces.get(phase, "there is no static trace of it"), phase)
        indices = [index for index, op in enumerate(times.operators) if op.phase == phase]
        if isinstance(trace, ModelTrace) and trace.failure is None:
            joined = _Joined(trace, phase, times)
            works = joined.works([times.operators[index] for index in indices])
            for index, counted in zip(indices, works, strict=True):
                work[index] = counted
            layer_work.update({(phase, path): counted for path, counted in joined.layers()})
        else:
            why = trace if isinstance(trace, str) else f"the static trace failed: {trace.failure}"
            for index in indices:
                work[index] = Work(None, None, why)
    return OperatorTimeTable(times, [counted or Work(None, None) for counted in work], layer_work)


def _of_phase(trace: ModelTrace | str, phase: str) -> ModelTrace | str:
    if isinstance(trace, str) or trace.failure is not None or any(_phase(op) == phase for op in trace.operators):
        return trace
    return f"not counted: the static trace does not say which operators are {phase}" if trace.operators else trace


def _phase(op: OpRecord) -> str:
    return str(getattr(op, "phase", "forward"))


class _Row:
    """One row of the table: the records of the trace for its calls, and the reasons why some are missing."""

    def __init__(self, time: OperatorTime) -> None:
        self.time = time
        self.records: list[OpRecord] = []
        self.missing: dict[str, None] = {}

    @property
    def called(self) -> Sequence[tuple[int, CalledOperator]]:
        """The calls of the row; if the row does not have them, calls that have only the operator's name."""
        return self.time.called or ((0, CalledOperator(self.time.operator)),) * self.time.calls

    @property
    def work(self) -> Work:
        if self.missing:
            return Work(None, None, "; ".join(self.missing))
        return Work(sum(op.macs for op in self.records), sum(op.flops for op in self.records))


#: Which calls want the records of an operator, by the layer and the operator's name.
_Takers = defaultdict[tuple[str, str], list[tuple[int, _Row]]]


class _Joined:
    """The records of one phase of a trace, by the layer that ran and the name of the operator."""

    def __init__(self, trace: ModelTrace, phase: str, times: OperatorTimes) -> None:
        self._uncounted = {times.name_of(name) for name in trace.uncounted}
        self._ran = times.layers.get(phase, frozenset())
        self._records: dict[str, dict[str, list[OpRecord]]] = defaultdict(lambda: defaultdict(list))
        self._whole: dict[str, list[OpRecord]] = defaultdict(list)
        self._covered: dict[str, str] = {}
        for traced in trace.operators:
            if _phase(traced) != phase:
                continue
            op = replace(traced, operator=times.name_of(traced.operator))
            layer = self._find_executed_layer(op.layer)
            self._whole[layer].append(op)
            if op.operator.startswith(_OF_A_LAYER):
                self._covered[op.layer] = op.operator.partition("::")[2]
            else:
                self._records[layer][op.operator].append(op)

    def _find_executed_layer(self, path: str) -> str:
        """Return the innermost layer around a path that the profiler saw: fused kernels do not call inner layers."""
        return next((layer for layer in _around(path) if layer in self._ran), path)

    def layers(self) -> Iterator[tuple[str, Work]]:
        """Yield the path and work of each layer, without the layers inside it."""
        for path, records in self._whole.items():
            without = sorted({op.operator for op in records} & self._uncounted)
            why = self._why_covered(path) if path not in self._covered else ""
            why = why or (_no_formula(without) if without else "")
            if why:
                yield path, Work(None, None, why)
            else:
                yield path, Work(sum(op.macs for op in records), sum(op.flops for op in records))

    def works(self, times: Sequence[OperatorTime]) -> list[Work]:
        """Return the work of each row."""
        rows = [_Row(time) for time in times]
        of_layer: dict[str, list[_Row]] = defaultdict(list)
        for row in rows:
            of_layer[row.time.layer].append(row)
        open_rows: list[_Row] = []
        for layer, members in of_layer.items():
            covered = self._why_covered(layer)
            if covered:
                for row in members:
                    row.missing[covered] = None
            else:
                open_rows += members
        self._join(open_rows)
        return [row.work for row in rows]

    def _why_covered(self, path: str) -> str:
        """Return why a layer's operators have no counts: a layer's formula covers them; empty if none does."""
        by = next((layer for layer in _around(path) if layer in self._covered), None)
        return "" if by is None else f"counted with the whole of layer {by!r}, by the formula of {self._covered[by]}"

    def _join(self, rows: Sequence[_Row]) -> None:
        """Assign the records of the trace to the calls of the profiler, layer by layer, in order."""
        seen: _Takers = defaultdict(list)
        unknown: dict[str, list[_Row]] = defaultdict(list)
        in_order = sorted(
            ((order, row, called) for row in rows for order, called in row.called), key=lambda call: call[0]
        )
        for order, row, called in in_order:
            layer = row.time.layer
            if not _find(called, layer, (order, row), self._records, seen) and row not in unknown[layer]:
                unknown[layer].append(row)
        for (layer, name), takers in seen.items():
            records = self._records[layer][name]
            reason = self._why_unjoined(name, records, takers)
            for index, (_, row) in enumerate(takers):
                if reason:
                    row.missing[reason] = None
                else:
                    row.records.append(records[index])
        for layer, strangers in unknown.items():
            self._join_rest(layer, strangers, seen)

    def _join_rest(self, layer: str, unknown: Sequence[_Row], seen: _Takers) -> None:
        """Give what is left of a layer's records to the one row that did work of another name; else say it is not."""
        rest = [op for name, value in self._records[layer].items() if (layer, name) not in seen for op in value]
        is_counted = all(op.operator not in self._uncounted for op in rest)
        is_known = len(unknown) == 1 and bool(unknown[0].time.called)
        if is_known and is_counted and any(op.flops for op in rest):
            unknown[0].records += rest  # one kernel did the work of several operators of the trace
            return
        for row in unknown:
            row.missing[_NOT_TRACED] = None

    def _why_unjoined(self, name: str, records: Sequence[OpRecord], matches: Sequence[tuple[int, _Row]]) -> str:
        if name in self._uncounted:
            return _no_formula([name])
        if len(matches) != len(records):
            traced, profiled = _times(records), _times(matches)
            return f"the static trace has {traced} of {name} in this layer, the profiler {profiled}"
        of_one_row = len({id(row) for _, row in matches}) == 1
        in_order = len({order for order, _ in matches}) == len(matches)
        if of_one_row or in_order or len({(op.macs, op.flops) for op in records}) == 1:
            return ""
        return f"which of the {len(records)} calls of {name} in this layer is which is not known"


def _find(
    called: CalledOperator,
    layer: str,
    taker: tuple[int, _Row],
    records: Mapping[str, Mapping[str, Sequence[OpRecord]]],
    seen: _Takers,
) -> bool:
    """Record the trace's calls that match a call or the calls inside it; return whether they cover all its work."""
    if called.is_free:
        return True
    layer = layer if called.layer is None else called.layer
    if called.name in records.get(layer, ()):
        seen[layer, called.name].append(taker)
        return True
    before = sum(map(len, seen.values()))
    inside = [_find(item, layer, taker, records, seen) for item in called.inside]
    return all(inside) and sum(map(len, seen.values())) > before


def _around(path: str) -> Iterator[str]:
    """Yield a layer's path and those of the layers around it, the innermost first."""
    yield path
    while path:
        path = path.rpartition(".")[0]
        yield path


def _no_formula(names: Sequence[str]) -> str:
    return f"no cost formula is known for {', '.join(names)}"


def _times(calls: Sequence[object]) -> str:
    return f"{len(calls)} call{'s' if len(calls) != 1 else ''}"
