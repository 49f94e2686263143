"""The times of layers as a grid, each with its noise and its share of the whole model.

A table of layers may have several kinds of time, such as forward and backward. Each kind is a column of seconds with
the layers inside (``forward_seconds``), and mostly one of the layer's own, without them (``own_forward_seconds``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..piping.titles import split_words, write_title
from ..times.layer_times import LayerTimeTable
from ..times.wording import format_noise
from ..trace.layer_paths import within_depth
from ..trace.layer_table import is_by_layer
from ..trace.records import LayerTable
from ..trace.table import Table
from .grids import Grid, GridColumn
from .layer_grids import Row, make_layer_grid, name_layer, write_calls
from .ranks import rank_rows, write_ranked_title
from .values import Column, share_text

__all__ = ["has_times", "layer_time_grid"]

#: The share of the model's time that a layer which holds others must take itself, to get a column of own times.
_LEAST_OWN = 0.01
#: The end of the names of columns of seconds, and the beginning of the names of columns of own times.
_SECONDS, _OWN = "_seconds", "own_"
#: Seconds that are subtracted already, and so are no time of a layer.
_SUBTRACTED = "overhead_seconds"


def has_times(table: Table) -> bool:
    """Return whether a table has seconds of layers, in a row for each."""
    return is_by_layer(table) and any(name.endswith(_SECONDS) for name in table.columns)


def layer_time_grid(title: str, layers: LayerTable, top: int, depth: int | None = None) -> Grid:
    """Return the times of layers, each with its noise and its share of the whole model.

    A table of up to ``top`` layers is shown whole: the layers in their order, each with the time of the layers inside
    it. Of a longer table the slowest ``top`` layers are shown, ranked by their own time, without the layers inside,
    like all other lists of slow layers.

    Args:
        title: The title of the grid.
        layers: The table.
        top: The most rows.
        depth: The depth of the deepest layers to show; None and -1 for any depth.
    """
    rows = within_depth(layers, depth)
    is_whole = len(rows) <= top
    if not is_whole:
        ranked = rank_rows(rows)
        title = write_ranked_title(title, ranked, min(top, len(ranked.rows)), len(rows))
        rows = list(ranked.rows[:top])
    columns = [
        GridColumn("Layer", [name_layer(row["path"], is_whole) for row in rows]),
        GridColumn("Type", [row["type"] for row in rows]),
    ]
    if any(row.get("calls", 1) != 1 for row in rows):
        columns.append(GridColumn("Calls", list(map(write_calls, rows)), is_number=True))
    for name in _list_times(layers.columns):
        if any(row[name] is not None for row in rows):
            columns += _list_time_columns(name, layers, rows, is_whole)
    for name, heading in (("binds", "Bound by"), ("missing", "Left out")):
        if any(row.get(name) for row in rows):
            columns.append(GridColumn(heading, [row.get(name, "") for row in rows]))
    return make_layer_grid(title, columns, rows, is_whole)


def _list_times(columns: Iterable[str]) -> list[str]:
    """Return the columns of seconds that have the layers inside: one for each kind of time that a table has.

    >>> _list_times(["path", "forward_seconds", "own_forward_seconds", "overhead_seconds"])
    ['forward_seconds']
    """
    return [name for name in columns if name.endswith(_SECONDS) and not name.startswith(_OWN) and name != _SUBTRACTED]


def _list_time_columns(name: str, layers: LayerTable, rows: Sequence[Row], is_whole: bool) -> list[GridColumn]:
    """Return the columns of one kind of time: the times, their shares of the model's, and own times beside the others.

    A grid of the slowest layers has their own times. A grid of all layers has the times with the layers inside.
    """
    own_name = f"{_OWN}{name}"
    if own_name not in layers.columns:
        return [_make_time_column(name, rows, layers)]
    shown = name if is_whole else own_name
    columns = [_make_time_column(shown, rows, layers)]
    whole = next((row[name] for row in layers if not row["path"]), None)
    if whole:
        heading = f"Share of\n{' '.join(split_words(name.removesuffix(_SECONDS)))}"
        shares = ["-" if row[shown] is None else share_text(row[shown] / whole) for row in rows]
        columns.append(GridColumn(heading, shares, is_number=True))
        if is_whole and any((row[own_name] or 0) >= _LEAST_OWN * whole for row in filter(_holds_others, rows)):
            columns.append(_make_own_column(own_name, rows, layers))
    return columns


def _make_own_column(own_name: str, rows: Sequence[Row], layers: LayerTable) -> GridColumn:
    """Return the own times of layers with others inside; the time of any other is all its own, and shown already."""
    column = _make_time_column(own_name, rows, layers)
    cells = [cell if _holds_others(row) else "" for cell, row in zip(column.cells, rows, strict=True)]
    return column._replace(cells=cells)


def _make_time_column(name: str, rows: Iterable[Row], layers: LayerTable) -> GridColumn:
    cells = [_write_seconds(row, name, layers) for row in rows]
    return GridColumn(write_title(name.removesuffix(_SECONDS)), cells, is_number=True)


def _holds_others(row: Row) -> bool:
    """Return whether a layer has others inside; a table that does not say so has none that do."""
    return not row.get("is_leaf", True)


def _write_seconds(row: Row, column: str, layers: LayerTable) -> str:
    """Return seconds, with their noise if a table has the samples: "3 ms ±33%"; "-" for none."""
    text = Column.of(column).show(row[column]) or "-"
    if not isinstance(layers, LayerTimeTable) or not row[column]:
        return text
    measured = layers.measurement(row["path"], column)
    return f"{text} {format_noise(measured.noise, digits=0)}" if len(measured.samples) > 1 else text
