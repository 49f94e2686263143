"""Operators summed by name over all layers, with their own time, average and calls, as torch.profiler shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from ..trace.bounds import WORK
from ..trace.operator_rows import TRAFFIC, read_work
from ..trace.table import Table
from .operator_times import OperatorTimeTable

__all__ = ["operator_totals"]

_SUMMED = ("seconds", *WORK, *TRAFFIC)


def operator_totals(table: Table) -> Table:
    """Return one row for each operator and phase of a table by operator and layer, the most time or MACs first.

    The columns are ``operator``, ``phase``, ``calls``, then of timed operators ``seconds`` (of all its calls, with what
    they called), ``own_seconds`` (without; None where the profiler does not tell, and of a table that was saved),
    ``average_seconds`` (of one call) and ``share``, and the counts that the table has; None where one is not known.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in table:
        groups.setdefault((row["operator"], row.get("phase", "forward")), []).append(row)
    own_seconds = _own_seconds(table)
    columns = [name for name in _SUMMED if name in table.columns]
    rows = []
    for (operator, phase), members in groups.items():
        totals = {name: _sum(read_work(row, name) for row in members) for name in columns}
        calls = sum(row["calls"] for row in members) if "calls" in table.columns else len(members)
        row = {"operator": operator, "phase": phase, "calls": calls}
        if "seconds" in totals:
            seconds = totals.pop("seconds") or 0.0
            row |= {
                "seconds": seconds,
                "own_seconds": own_seconds.get((operator, phase)),
                "average_seconds": seconds / calls,
            }
        rows.append({**row, **totals})
    by = "seconds" if "seconds" in columns else "macs"
    whole = sum(row.get("seconds", 0.0) for row in rows)
    if whole:
        rows = [{**row, "share": row["seconds"] / whole} for row in rows]
    return Table(sorted(rows, key=lambda row: -(row.get(by) or 0)))


def _own_seconds(table: Table) -> dict[tuple[str, str], float]:
    """Return the seconds of each operator without what it called, medians over the passes."""
    if not isinstance(table, OperatorTimeTable):
        return {}
    own_seconds: dict[tuple[str, str], float] = {}
    for timed in table.times.operators:
        for kernel in timed.kernels:
            if kernel.name == timed.operator:
                key = timed.operator, timed.phase
                own_seconds[key] = own_seconds.get(key, 0.0) + median(kernel.seconds)
    return own_seconds


def _sum(values: Iterable[float | None]) -> float | None:
    total: float = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
