"""The selection of layers and tables that a reader has requested, and their grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..results.report import Report
from ..trace.layer_paths import within_depth
from ..trace.layer_table import is_innermost
from ..trace.records import LayerTable
from ..trace.table import Table
from .changed_layers import measure_change
from .grids import Grid
from .layer_grids import difference_grid, layer_grid
from .layer_time_grids import has_times, layer_time_grid
from .table_grids import ROWS, table_grid

__all__ = ["Selection"]


@dataclass(frozen=True)
class Selection:
    """The parts that are shown beside the values of a result.

    Attributes:
        details: Describe each metric, and show the layers, and ten rows of each metric that is a table.
        depth: The depth of the deepest layers to show, -1 for any depth; the layers are shown if it is given.
        top: The number of layers to show, with the most MACs first, and of rows of each metric that is a table; the
            layers are shown if it is given.
        changes: In a comparison, show the layers that changed, were removed or added.
    """

    details: bool = False
    depth: int | None = None
    top: int | None = None
    changes: bool = False

    @property
    def has_layers(self) -> bool:
        """Whether the layers are shown, and the metrics that are tables."""
        return self.details or self.changes or self.depth is not None or self.top is not None

    @property
    def has_whole_models(self) -> bool:
        """Whether the layers are shown in the order of the model, none left out but deeper ones."""
        return not self.changes and self.top is None

    def draw_layers(self, layers: LayerTable, with_seconds: bool) -> Grid:
        """Return the grid of the layers of one model.

        Without a depth, layers are ranked by their own MACs, so that no row repeats another row. At a requested depth,
        the MACs of a layer include the layers inside.
        """
        rows = LayerTable(within_depth(layers, self.depth))
        if self.top is None:
            return layer_grid(rows, with_seconds=with_seconds)
        if self.depth is None and "own_macs" in layers.columns:
            title = "Layers with the most MACs of their own"
            ranked = LayerTable(map(_leave_out_inside, rows)).top(self.top, "own_macs")
        else:
            title = "Layers with the most MACs"
            ranked = rows.top(self.top, "macs" if "macs" in layers.columns else None, self.depth)
        return layer_grid(ranked, title, nested=False, with_seconds=with_seconds)

    def draw_metric(self, title: str, table: Table) -> Grid:
        """Return the grid of a metric that is a table: ten rows unless another number is requested."""
        if isinstance(table, LayerTable) and has_times(table):
            return layer_time_grid(title, table, self.top or ROWS, self.depth)
        return table_grid(title, table, self.top or ROWS, self.depth)

    def draw_pair(self, reference: Report, other: Report, sides: Table) -> Grid:
        """Return the grid of the layers of two models, which ``sides`` has side by side."""
        rows = self._select_pairs(within_depth(sides, self.depth))
        names = (reference.name, other.name)
        title = f"Layers of {' and '.join(names)}"
        if self.changes:
            verb = "may differ" if any(row["change"] == "unknown" for row in rows) else "differ"
            title = f"{'Layers that' if rows else 'No layers'} {verb} between {' and '.join(names)}"
        return difference_grid(rows, title, names, nested=self.has_whole_models)

    def _select_pairs(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the layers of two models to show; a few of them are layers beside each other, none inside another."""
        if self.changes:
            rows = [row for row in rows if row["change"] != "same"]
        if self.top is None:
            return rows
        if self.depth is None or self.depth < 0:
            rows = [row for row in rows if _is_innermost(row)]
        else:
            reached = min(self.depth, max((row["depth"] for row in rows), default=0))
            rows = [row for row in rows if row["depth"] == reached]
        return sorted(rows, key=measure_change, reverse=True)[: self.top]


def _leave_out_inside(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row of a layer with its own amounts, such as ``macs``, without the layers inside."""
    return {**row, **{name: row[f"own_{name}"] for name in row if f"own_{name}" in row}}


def _is_innermost(row: Mapping[str, Any]) -> bool:
    """Return whether a layer of two models is innermost by its MACs in one of them."""
    other = {name: row.get(f"other_{name}") for name in ("macs", "own_macs")}
    return is_innermost(row, "macs") or is_innermost({**other, "is_leaf": False}, "macs")
