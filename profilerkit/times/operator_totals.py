"""Operators summed by name over all layers, with their own time, average and calls, as torch.profiler shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from ..trace.bounds import WORK
from ..trace.rows import TRAFFIC, read_work
from ..trace.table import Table
from .operator_times import OperatorTimeTable, sum_known

__all__ = ["operator_totals"]

_SUMMED = ("seconds", *WORK, *TRAFFIC)


def operator_totals(table: Table) -> Table:
    """Return one row for each operator and phase of a table by operator and layer, the most time or MACs first.

    The columns are ``operator``, ``phase``, ``calls``, then of timed operators ``seconds`` (of all its calls, with what
    they called), ``own_seconds`` (without; None where the profiler does not tell, and of a table that was saved),
    ``average_seconds`` (of one call) and ``share``, and the counts that the table has; None where one is not known.
    """
    groups: dict[_Operator, list[Mapping[str, Any]]] = {}
    for row in table:
        groups.setdefault(_Operator(row["operator"], row.get("phase", "forward")), []).append(row)
    own_seconds = _find_own_seconds(table)
    columns = [name for name in _SUMMED if name in table.columns]
    rows = [_sum_rows(operator, members, columns, own_seconds) for operator, members in groups.items()]
    by = "seconds" if "seconds" in columns else "macs"
    return Table(sorted(_add_shares(rows), key=lambda row: -(row.get(by) or 0)))


class _Operator(NamedTuple):
    """An operator by its name, in one phase."""

    name: str
    phase: str


def _sum_rows(
    operator: _Operator,
    members: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    own_seconds: Mapping[_Operator, float],
) -> dict[str, Any]:
    """Return one row for the rows of an operator, with the sums of columns."""
    totals = {name: sum_known(read_work(row, name) for row in members) for name in columns}
    calls = sum(row.get("calls", 1) for row in members)
    row = {"operator": operator.name, "phase": operator.phase, "calls": calls}
    if "seconds" in totals:
        seconds = totals.pop("seconds") or 0.0
        row |= {"seconds": seconds, "own_seconds": own_seconds.get(operator), "average_seconds": seconds / calls}
    return {**row, **totals}


def _add_shares(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return rows with their shares of all seconds; as they are if they have no times."""
    whole = sum(row.get("seconds", 0.0) for row in rows)
    return [{**row, "share": row["seconds"] / whole} for row in rows] if whole else rows


def _find_own_seconds(table: Table) -> dict[_Operator, float]:
    """Return the seconds of each operator without what it called, medians over the passes."""
    if not isinstance(table, OperatorTimeTable):
        return {}
    own_seconds: dict[_Operator, float] = {}
    for timed in table.times.operators:
        operator = _Operator(timed.operator, timed.phase)
        for kernel in timed.kernels:
            if kernel.name == timed.operator:
                own_seconds[operator] = own_seconds.get(operator, 0.0) + median(kernel.seconds)
    return own_seconds
