"""The layers of several models as grids: one for each count, with a column for each model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..piping.quantity import Scale, scale_value
from ..trace.depths import within_depth
from .grids import Grid, visible

if TYPE_CHECKING:
    from ..results.comparison import Comparison

__all__ = ["all_layers_grids"]

_TITLES = {
    "params": "Parameters by layer",
    "macs": "MACs by layer",
    "flops": "FLOPs by layer",
}


def all_layers_grids(comparison: Comparison, depth: int | None = None) -> Iterator[Grid]:
    """Yield the layers of all models side by side: their parameters, MACs and FLOPs, each with the layers inside.

    An empty cell is a layer that the model lacks, a hyphen one that has none of what is counted.
    """
    names = [report.name for report in comparison.reports]
    rows = within_depth(comparison.all_layers(*_TITLES), depth)
    for column, title in _TITLES.items():
        drawn = tuple(
            (row["path"].rpartition(".")[2] or "(model)", row["type"], *(_cell(row, column, name) for name in names))
            for row in rows
        )
        titles = ("Layer", "Type", *map(visible, names))
        numeric = frozenset(range(2, len(titles)))
        yield Grid(title, titles, drawn, numeric, tuple(row["depth"] for row in rows), kind="layers")


def _cell(row: Any, column: str, name: str) -> str:
    value = row[f"{column} of {name}"]
    if value is None:
        return ""
    return str(scale_value(value, scale=Scale.SI)) if value else "-"
