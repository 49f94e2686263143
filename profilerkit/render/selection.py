"""Which layers of a result are shown, and the grids of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..times.operator_times import COLUMNS
from ..trace.alignment import is_foreign
from ..trace.depths import within_depth
from ..trace.layer_table import is_innermost
from ..trace.layer_view import group_children
from ..trace.records import LayerTable
from ..trace.table import Table
from .grids import Grid
from .layer_grids import difference_grid, layer_grid
from .layer_time_grids import has_times, layer_time_grid
from .table_grids import ROWS, operator_grid, table_grid

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["Selection", "list_changed_layers"]


@dataclass(frozen=True)
class Selection:
    """What is shown beside the values of a result; `profilerkit.render.content.parts` explains the attributes."""

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
        """Return the grid of the layers of one model."""
        rows = within_depth(layers, self.depth)
        if self.top is None:
            return layer_grid(LayerTable(rows), with_seconds=with_seconds)
        if self.depth is not None or "own_macs" not in layers.columns:
            ranked = LayerTable(rows).top(self.top, "macs" if "macs" in layers.columns else None, self.depth)
            return layer_grid(ranked, "Layers with the most MACs", nested=False, with_seconds=with_seconds)
        alone = LayerTable(map(_leave_out_inside, rows)).top(self.top, "own_macs")
        return layer_grid(alone, "Layers with the most MACs of their own", nested=False, with_seconds=with_seconds)

    def draw_metric(self, title: str, table: Table) -> Grid:
        """Return the grid of a metric that is a table: ten rows unless another number is requested."""
        if isinstance(table, LayerTable) and has_times(table):
            return layer_time_grid(title, table, self.top or ROWS, self.depth)
        if table.columns == COLUMNS:
            return operator_grid(title, table, self.top or ROWS)
        return table_grid(title, table, self.top or ROWS, self.depth)

    def draw_pair(self, reference: Report, other: Report, sides: Table) -> Grid:
        """Return the grid of the layers of two models, which ``sides`` has side by side."""
        rows = within_depth(sides, self.depth)
        title = f"Layers of {reference.name} and {other.name}"
        if self.changes:
            rows = [row for row in rows if row["change"] != "same"]
            title = f"{'Layers that' if rows else 'No layers'} differ between {reference.name} and {other.name}"
        if self.top is not None:
            at_depth = _is_innermost if self.depth is None else lambda row: row["depth"] == self.depth
            rows = sorted(filter(at_depth, rows), key=_measure_change, reverse=True)[: self.top]
        return difference_grid(rows, title, (reference.name, other.name), nested=self.has_whole_models)


def _leave_out_inside(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row of a layer with its own amounts alone, without those of the layers inside of it."""
    return {**row, **{name: row[f"own_{name}"] for name in row if f"own_{name}" in row}}


def _is_innermost(row: Mapping[str, Any]) -> bool:
    """Return whether a layer of two models is innermost by its MACs in one of them."""
    other = {name: row.get(f"other_{name}") for name in ("macs", "own_macs")}
    return is_innermost(row, "macs") or is_innermost({**other, "is_leaf": False}, "macs")


def _measure_change(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return by how many MACs and parameters a layer of two models differs."""
    macs, params = (abs((row[f"other_{key}"] or 0) - (row[key] or 0)) for key in ("macs", "params"))
    return macs, params


def list_changed_layers(comparison: Comparison, most: int) -> Iterator[Grid]:
    """Yield a grid of at most so many layers in which the second of two models differs from the first, if it does."""
    if len(comparison.others) > 1 or any(report.layers is None for report in comparison.reports):
        return
    reference, other = comparison.reports
    layers = _find_changed_layers(comparison.layers(0), most)
    counted = [row for row in layers if any(_measure_change(row))] or layers  # others differ in FLOPs alone
    largest = sorted(counted, key=_measure_change, reverse=True)[:most]
    lacked = [row for row in largest if row["change"] in ("removed", "added")]
    if is_foreign(reference, other) and 2 * len(lacked) > len(largest):
        return  # one is nested, the other is flat: most of these are the same layers
    if largest:
        in_order = [row for row in layers if row in largest]
        part = f", {len(largest)} of {len(counted)}" if len(largest) < len(counted) else ""
        title = f"Layers that differ between {reference.name} and {other.name}{part}"
        yield difference_grid(in_order, title, (reference.name, other.name), nested=False)


def _find_changed_layers(sides: Table, most: int) -> list[Mapping[str, Any]]:
    """Return the outermost of the layers that differ, in the order of the model.

    As long as there is room for ``most`` layers, the one whose MACs differ most gives way to those inside it.
    """
    inside = group_children([row for row in sides if row["change"] != "same" or not row["path"]])
    layers = list(inside.get("", ()))
    while True:
        room = most - len(layers) + 1
        replaceable = [row for row in layers if 0 < len(inside.get(row["path"], ())) <= room]
        if not replaceable:
            return layers
        index = layers.index(max(replaceable, key=_measure_change))
        layers[index : index + 1] = inside[layers[index]["path"]]
