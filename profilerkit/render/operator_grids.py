"""Grids of timed operators: the slowest, in which layer each is, and how fast it works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..piping.quantity import Scale, scale_value
from ..times.operator_times import COLUMNS
from ..trace.table import Table
from .grids import Grid, titled_values

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["operator_grids"]

#: So many rows are shown; the value has them all.
SHOWN = 20


def operator_grids(reports: Sequence[Report]) -> Iterator[Grid]:
    """Yield the slowest rows of each table of operators, one that was saved and read again too."""
    for title, value in titled_values(reports, lambda each: isinstance(each, Table) and each.columns == COLUMNS):
        yield _grid(title, value)


def _grid(title: str, table: Table) -> Grid:
    rows = tuple(
        (
            row["operator"],
            row["layer"] or "(model)",
            row["phase"],
            str(row["calls"]),
            str(scale_value(row["seconds"], "s", Scale.TIME)),
            f"{row['share']:.1%}",
            _number(row["macs"]),
            _number(row["flops_per_second"]),
        )
        for row in list(table)[:SHOWN]
    )
    titles = ("Operator", "Layer", "Phase", "Calls", "Time", "Share", "MACs", "FLOP/s")
    more = f", the slowest {SHOWN} of {len(table)}" if len(table) > SHOWN else ""
    return Grid(f"{title}{more}", titles, rows, frozenset(range(3, 8)), kind="operators")


def _number(value: float | None) -> str:
    return str(scale_value(value, scale=Scale.SI)) if value else "-"
