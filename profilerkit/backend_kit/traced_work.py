"""The operators of one phase of a static trace, as a profiler can see them: by the layer that ran, and by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..times.operator_times import OperatorTimes, Work
from ..trace.layer_operators import find_layer_type
from ..trace.layer_paths import walk_outwards
from ..trace.records import ModelTrace, OpRecord

__all__ = ["OperatorKey", "TracedWork", "explain_missing", "sum_records"]


class OperatorKey(NamedTuple):
    """An operator of the trace, all calls of it in one layer."""

    layer: str
    name: str


class TracedWork:
    """The records of one phase of a trace.

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
        self.records: dict[OperatorKey, list[OpRecord]] = defaultdict(list)
        #: All records of a layer.
        self._whole: dict[str, list[OpRecord]] = defaultdict(list)
        for op in traced:
            layer, name = self._find_executed_layer(op.layer), times.name_of(op.operator)
            self._whole[layer].append(op)
            if not self.explain_cover(op.layer) or find_layer_type(op.operator) is not None:
                self.records[OperatorKey(layer, name)].append(op)

    def sum_layers(self) -> Iterator[tuple[str, Work]]:
        """Yield the path and work of each layer, without the layers inside it."""
        for path, records in self._whole.items():
            why = "" if path in self._covered else self.explain_cover(path)
            why = why or explain_missing(records)
            yield path, Work(None, None, why) if why else sum_records(records)

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


def sum_records(records: Sequence[OpRecord]) -> Work:
    """Return the work of records together."""
    return Work(sum(op.macs for op in records), sum(op.flops for op in records))


def explain_missing(records: Sequence[OpRecord]) -> str:
    """Return the uncounted work of records; empty if all is counted."""
    missing = sorted({op.missing for op in records if op.missing})
    return f"not counted: {', '.join(missing)}" if missing else ""
