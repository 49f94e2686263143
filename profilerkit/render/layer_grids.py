"""The layers of a model as a grid: their counts and their measured values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from ..trace.records import LayerTable
from .grids import Grid
from .layer_settings import write_settings
from .values import Column, write_achieved, write_row_value, write_shapes, write_signed_count

__all__ = [
    "COUNTS",
    "GridColumn",
    "Row",
    "layer_grid",
    "make_grid",
    "name_layer",
    "write_bounded",
    "write_calls",
    "write_name",
]

Row: TypeAlias = Mapping[str, Any]

#: The counts of layers, with the titles of their columns.
COUNTS = {"params": "Params", "macs": "MACs", "flops": "FLOPs"}
#: The columns of `Report.layerwise` that stand beside the counts if layers were timed, and their titles.
_TIMED = {
    "forward_seconds": "Forward",
    "forward_seconds_share": "Share of\nforward",
    "backward_seconds": "Backward",
    "backward_seconds_share": "Share of\nbackward",
    "achieved_flops_per_second": "Achieved",
}
#: The columns that a narrow terminal leaves out of a table of layers, in this order.
_LEAST_NEEDED = ("Calls", "Type", "FLOPs", "Settings", "Share of\nbackward", "Share of\nforward", "Achieved", "Change")


class GridColumn(NamedTuple):
    """A column of a grid: its title, how it writes the cell of a row, and whether the cells are numbers."""

    title: str
    write: Callable[[Row], str]
    is_number: bool = False


def layer_grid(layers: LayerTable, title: str = "Layers", *, nested: bool = True, with_seconds: bool = True) -> Grid:
    """Return the per-layer table: counts and times, each with the layers inside, and the values computed from the two.

    Args:
        layers: The rows.
        title: The title above the rows.
        nested: Whether a layer has its own name alone, indented below its parent; else its whole path is shown.
        with_seconds: Whether the times are shown; they are not if they have a grid of their own.
    """
    columns = [GridColumn("Layer", partial(write_name, nested=nested)), GridColumn("Type", itemgetter("type"))]
    if any(map(write_settings, layers)):
        columns.append(GridColumn("Settings", write_settings))
    columns.append(GridColumn("Output shape", lambda row: write_shapes(row.get("output_shapes"))))
    if any(row["calls"] != 1 for row in layers):
        columns.append(GridColumn("Calls", write_calls, is_number=True))
    for key, heading in COUNTS.items():
        columns.append(GridColumn(heading, partial(write_bounded, key=key), is_number=True))
    for key, heading in _TIMED.items():
        is_time = "_seconds" in key  # seconds, or their share of the model's
        if layers and key in layers[0] and (with_seconds or not is_time):
            columns.append(GridColumn(heading, partial(_write_measured, key=key), is_number=True))
    return make_grid(title, columns, layers, nested)


def make_grid(title: str, columns: Sequence[GridColumn], rows: Sequence[Row], nested: bool = True) -> Grid:
    """Return the grid of these columns, with a row for each layer, indented by its depth if names are nested."""
    titles = tuple(column.title for column in columns)
    cells = tuple(tuple(column.write(row) for column in columns) for row in rows)
    numeric = frozenset(index for index, column in enumerate(columns) if column.is_number)
    depths = tuple(row["depth"] for row in rows) if nested else ()
    return Grid(title, titles, cells, numeric, depths, kind="layers", least_needed=_LEAST_NEEDED)


# Cells ----------------------------------------------------------------------------------------------------------------


def name_layer(path: str, nested: bool) -> str:
    """Return the last part of a path, or all of it; the model itself has an empty one."""
    name = path.rpartition(".")[2] if nested else path
    return name or "(model)"


def write_name(row: Row, nested: bool = True) -> str:
    """Return the name of a layer: its path, or the last part of it inside the rows of its parents."""
    return name_layer(row["path"], nested)


def write_calls(row: Row) -> str:
    """Return how often a layer is called; a hyphen if it is not called, or if this is unknown."""
    return str(row.get("calls") or "-")


def write_bounded(row: Row, key: str) -> str:
    """Return a count with the sign before it, such as "≥ "."""
    return write_signed_count(*write_row_value(row, key))


def _write_measured(row: Row, key: str) -> str:
    """Return a time or a value computed from times, in the unit of its column; a hyphen if nothing was measured."""
    return (write_achieved(row) if key.startswith("achieved") else Column.of(key).show(row[key])) or "-"
