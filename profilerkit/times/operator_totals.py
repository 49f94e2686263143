"""Operators summed by name over all layers, of a table of timed operators or of a trace's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from ..trace.columns import TRAFFIC, WORK
from ..trace.rows import read_work
from ..trace.table import Table
from .operator_times import OperatorTimeTable, sum_known

__all__ = ["operator_totals"]

#: An operator by its name, in one phase.
_Operator: TypeAlias = tuple[str, str]
_SUMMED = ("seconds", *WORK, *TRAFFIC)


def operator_totals(table: Table) -> Table:
    """Return one row for each operator and phase of a table by operator and layer, the most time or MACs first.

    The columns are ``operator``, ``phase``, ``calls``, then for timed operators ``seconds`` (of all its calls, with the
    operators inside), ``own_seconds`` (without; None if the profiler does not tell, and for a saved table),
    ``average_seconds`` (of one call) and ``share``, and the counts that the table has; None if a number is not known.
    """
    groups: dict[_Operator, list[Mapping[str, Any]]] = {}
    for row in table:
        groups.setdefault((row["operator"], row.get("phase", "forward")), []).append(row)
    columns = [name for name in _SUMMED if name in table.columns]
    own_seconds = _sum_own_seconds(table)
    rows = [_sum_rows(members, columns, own_seconds.get(operator)) for operator, members in groups.items()]
    whole = sum_known(row.get("seconds", 0.0) for row in rows)
    if whole:
        rows = [{**row, "share": row["seconds"] / whole} for row in rows]
    by = "seconds" if "seconds" in columns else "macs"
    return Table(sorted(rows, key=lambda row: -(row.get(by) or 0)))


def _sum_rows(
    members: Sequence[Mapping[str, Any]], columns: Iterable[str], own_seconds: float | None
) -> dict[str, Any]:
    """Return one row for the rows of an operator in one phase, with the sums of columns."""
    first = members[0]
    sums = {name: sum_known(read_work(row, name) for row in members) for name in columns}
    calls = sum(row.get("calls", 1) for row in members)
    total = {"operator": first["operator"], "phase": first.get("phase", "forward"), "calls": calls}
    if "seconds" in sums:
        seconds = sums.pop("seconds")
        average = None if seconds is None or not calls else seconds / calls  # the last pass may have had no calls
        total |= {"seconds": seconds, "own_seconds": own_seconds, "average_seconds": average}
    return {**total, **sums}


def _sum_own_seconds(table: Table) -> dict[_Operator, float]:
    """Return the seconds of each operator without the operators inside, medians over the passes."""
    own_seconds: dict[_Operator, float] = {}
    for timed in table.times.operators if isinstance(table, OperatorTimeTable) else ():
        for kernel in timed.kernels:
            if kernel.name == timed.operator:
                operator = timed.operator, timed.phase
                own_seconds[operator] = own_seconds.get(operator, 0.0) + median(kernel.seconds)
    return own_seconds
