"""Operators summed by name over all layers, of a table of timed operators or of a trace's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from ..trace.columns import TRAFFIC, WORK
from ..trace.rows import divide_known, read_work
from ..trace.table import Table
from .operator_times import OperatorTimeTable, sum_known

__all__ = ["operator_totals"]

#: An operator by its name, in one phase.
_Operator: TypeAlias = tuple[str, str]
_SUMMED = ("seconds", *WORK, *TRAFFIC)


def operator_totals(table: Table) -> Table:
    """Return one row for each operator and phase of a table by operator and layer, the most time or MACs first.

    The columns are ``operator``, ``phase``, ``calls``, then for timed operators ``seconds`` (of all its calls, with the
    operators inside), ``own_seconds`` (without; None if the profiler does not tell, and for a saved table) and
    ``average_seconds`` (of one call), the counts that the table has, and for timed operators ``share`` of the seconds
    of all; None if a number is not known.
    """
    groups: dict[_Operator, list[Mapping[str, Any]]] = {}
    for row in table:
        groups.setdefault((row["operator"], row.get("phase", "forward")), []).append(row)
    columns = [name for name in _SUMMED if name in table.columns]
    own_seconds = _sum_own_seconds(table)
    rows = [_sum_rows(members, columns, own_seconds.get(operator)) for operator, members in groups.items()]
    if "seconds" not in columns:
        return _rank(rows, "macs")
    whole = sum_known(row["seconds"] for row in rows)
    return _rank([{**row, "share": divide_known(row["seconds"], whole)} for row in rows], "seconds")


def _rank(rows: Iterable[dict[str, Any]], column: str) -> Table:
    """Return the rows with the most of a column first; those without it, or that do not know it, last."""
    return Table(sorted(rows, key=lambda row: row.get(column) or 0, reverse=True))


def _sum_rows(
    members: Sequence[Mapping[str, Any]], columns: Iterable[str], own_seconds: float | None
) -> dict[str, Any]:
    """Return one row for the rows of an operator in one phase, with the sums of columns."""
    first = members[0]
    sums = {name: sum_known(read_work(row, name) for row in members) for name in columns}
    calls = sum_known(row.get("calls", 1) for row in members)
    total = {"operator": first["operator"], "phase": first.get("phase", "forward"), "calls": calls}
    if "seconds" in sums:
        seconds = sums.pop("seconds")
        average = divide_known(seconds, calls)  # None if the last pass had no calls, or their number is not known
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
