"""The layers of a model as a grid, with counts and measured values; and the layers of several models side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..foreign_text import visible
from ..results.comparison import Comparison
from ..trace.alignment import name_column
from ..trace.columns import name_ends
from ..trace.layer_paths import within_depth
from ..trace.records import LayerTable
from .grids import Grid, GridColumn, make_grid
from .values import Column, write_achieved, write_count, write_row_value, write_shapes, write_signed_count

__all__ = [
    "Row",
    "all_layers_grids",
    "difference_grid",
    "layer_grid",
    "make_layer_grid",
    "name_layer",
    "write_calls",
]

Row: TypeAlias = Mapping[str, Any]

#: The counts of layers, with the titles of their columns.
_COUNTS = {"params": "Params", "macs": "MACs", "flops": "FLOPs"}
#: The columns of `Report.layerwise` that stand beside the counts if layers were timed, and their titles.
_TIMED = {
    "forward_seconds": "Forward",
    "forward_seconds_share": "Share of\nforward",
    "backward_seconds": "Backward",
    "backward_seconds_share": "Share of\nbackward",
    "achieved_flops_per_second": "Achieved",
}
#: The columns that a narrow terminal leaves out of a table of layers, in this order.
_LEAST_NEEDED = ("Calls", "FLOPs", "Share of\nbackward", "Share of\nforward", "Achieved", "Change")
#: The counts of layers that are shown for several models, each with the title of its grid.
_ALL_MODELS = {"params": "Parameters by layer", "macs": "MACs by layer", "flops": "FLOPs by layer"}
#: Values without a column in which two models may differ: a layer may do the work of an inner layer of the other model.
_HIDDEN = {"flops": "FLOPs", "own_macs": "own MACs", "own_flops": "own FLOPs"}


def layer_grid(layers: LayerTable, title: str = "Layers", *, nested: bool = True, with_seconds: bool = True) -> Grid:
    """Return the per-layer table: counts and times, each with the layers inside, and the values computed from the two.

    Args:
        layers: The rows.
        title: The title above the rows.
        nested: Whether a layer has its own name alone, indented below its parent; else its whole path is shown.
        with_seconds: Whether the times are shown; they are not if they have a grid of their own.
    """
    columns = [
        GridColumn("Layer", [name_layer(row["path"], nested) for row in layers]),
        GridColumn("Type", [row["type"] for row in layers]),
        GridColumn("Output shape", [write_shapes(row.get("output_shapes")) for row in layers]),
    ]
    if any(row["calls"] != 1 for row in layers):
        columns.append(GridColumn("Calls", list(map(write_calls, layers)), is_number=True))
    for key, heading in _COUNTS.items():
        columns.append(GridColumn(heading, [_write_bounded(row, key) for row in layers], is_number=True))
    for key, heading in _TIMED.items():
        is_time = "_seconds" in key  # seconds, or their share of the model's
        if layers and key in layers[0] and (with_seconds or not is_time):
            columns.append(GridColumn(heading, [_write_measured(row, key) for row in layers], is_number=True))
    return make_layer_grid(title, columns, layers, nested)


def make_layer_grid(title: str, columns: Sequence[GridColumn], rows: Sequence[Row], nested: bool = True) -> Grid:
    """Return the grid of these columns, with a row for each layer, indented by its depth if names are nested."""
    depths = [row["depth"] for row in rows] if nested else ()
    return make_grid(title, columns, depths, kind="layers", least_needed=_LEAST_NEEDED)


def difference_grid(rows: Sequence[Row], title: str, names: tuple[str, str], *, nested: bool = True) -> Grid:
    """Return layers side by side: parameters and MACs in both models, and how each layer changed unless all changed.

    ``nested`` is as in `layer_grid`.
    """
    columns = [
        GridColumn("Layer", [_write_both_names(row, nested) for row in rows]),
        GridColumn("Type", list(map(_write_both_types, rows))),
    ]
    for key in ("params", "macs"):
        for side, name in zip(("", "other_"), names, strict=True):
            cells = [_write_side(row, f"{side}{key}") for row in rows]
            columns.append(GridColumn(f"{_COUNTS[key]}\n{visible(name)}", cells, is_number=True))
    changes = list(map(_describe_change, rows))
    if any(change != "changed" for change in changes):
        columns.append(GridColumn("Change", changes))
    grid = make_layer_grid(title, columns, rows, nested)
    is_hidden = any(change != row["change"] for change, row in zip(changes, rows, strict=True))
    return replace(grid, least_needed=()) if is_hidden else grid  # no other column shows such a difference


def all_layers_grids(comparison: Comparison, depth: int | None = None) -> Iterator[Grid]:
    """Yield the layers of all models side by side: their parameters, MACs and FLOPs, each with the layers inside.

    A cell is empty if the model lacks the layer, and a hyphen if the count of the layer is 0.
    """
    rows = within_depth(comparison.all_layers(*_ALL_MODELS), depth)
    names = GridColumn("Layer", [name_layer(row["path"]) for row in rows])
    types = GridColumn("Type", [row["type"] for row in rows])
    for key, title in _ALL_MODELS.items():
        columns = [names, types]
        for report in comparison.reports:
            cells = [_write_model(row, key, report.name) for row in rows]
            columns.append(GridColumn(visible(report.name), cells, is_number=True))
        yield make_layer_grid(title, columns, rows)


# Cells ----------------------------------------------------------------------------------------------------------------


def name_layer(path: str, nested: bool = True) -> str:
    """Return the last part of a path, or all of it unless the row is nested; the model itself has an empty one."""
    name = path.rpartition(".")[2] if nested else path
    return name or "(model)"


def write_calls(row: Row) -> str:
    """Return how often a layer is called; a hyphen if it is not called, or if this is unknown."""
    return str(row.get("calls") or "-")


def _write_bounded(row: Row, key: str) -> str:
    """Return a count with the sign before it, such as "≥ "."""
    return write_signed_count(*write_row_value(row, key))


def _write_measured(row: Row, key: str) -> str:
    """Return a time or a value computed from times, in the unit of its column; a hyphen if nothing was measured."""
    return (write_achieved(row) if key.startswith("achieved") else Column.of(key).show(row[key])) or "-"


def _write_both_names(row: Row, nested: bool) -> str:
    """Return the name of a layer in the first model, with that in the second one if it differs."""
    path, other = row["path"], row["other_path"]
    name = name_layer(path, nested)
    return name if other in (None, path) else f"{name} / {name_layer(other, nested)}"


def _write_both_types(row: Row) -> str:
    """Return the type of a layer in the first model, with that in the second one if it differs."""
    kind, other = row["type"], row["other_type"]
    return str(kind) if other in (None, kind) else f"{kind} / {other}"


def _write_side(row: Row, key: str) -> str:
    """Return a count of one of several models, with its sign; nothing for a layer that the model lacks."""
    return "" if row[key] is None else _write_bounded(row, key)


def _write_model(row: Row, column: str, model: str) -> str:
    """Return a count of the model of this name in a row of all models, as `_write_side` does."""
    names = (column, *name_ends(column))
    counts = {name: row[key] for name in names if (key := name_column(name, model)) in row}
    return _write_side(counts, column)


def _describe_change(row: Row) -> str:
    """Say how a layer changed; if no column shows the difference, name the value and its difference."""
    if row["change"] != "changed" or row["params_difference"] or row["macs_difference"]:
        return str(row["change"])
    hidden = next(name for name in _HIDDEN if row[f"{name}_difference"])
    return f"{_HIDDEN[hidden]} {write_count(row[hidden])} to {write_count(row[f'other_{hidden}'])}"
