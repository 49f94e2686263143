"""Grids of timed operators: the slowest, in which layer each is, and how fast it works."""

from __future__ import annotations

from ..piping.quantity import Scale, scale_value
from ..trace.table import Table
from .grids import Grid

__all__ = ["operator_grid"]


def operator_grid(title: str, table: Table, top: int) -> Grid:
    """Return the slowest rows of a table of operators, one that was saved and read again too."""
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
        for row in list(table)[:top]
    )
    titles = ("Operator", "Layer", "Phase", "Calls", "Time", "Share", "MACs", "FLOP/s")
    more = f", the slowest {top} of {len(table)}" if len(table) > top else ""
    return Grid(f"{title}{more}", titles, rows, frozenset(range(3, 8)), kind="operators")


def _number(value: float | None) -> str:
    return str(scale_value(value, scale=Scale.SI)) if value else "-"
