"""The times of layers as a grid, each with its noise and its share of the whole model.

A table of layers may have several kinds of time, such as forward and backward. Each kind is a column of seconds with
the layers inside (``forward_seconds``), and mostly one of the layer's own, without them (``own_forward_seconds``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..piping.titles import split_words, write_title
from ..times.layer_times import LayerTimeTable
from ..times.wording import format_noise
from ..trace.layer_paths import within_depth
from ..trace.layer_table import is_by_layer
from ..trace.records import LayerTable
from ..trace.table import Table
from .grids import Grid
from .layer_grids import GridColumn, Row, make_grid, name_layer, write_calls
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
    for key, heading in (("binds", "Bound by"), ("missing", "Left out")):
        if any(row.get(key) for row in rows):
            columns.append(GridColumn(heading, [row[key] for row in rows]))
    return make_grid(title, columns, rows, is_whole)


def _list_times(columns: Iterable[str]) -> list[str]:
    """Return the columns of seconds that have the layers inside: one for each kind of time that a table has.

    >>> _list_times(["path", "forward_seconds", "own_forward_seconds", "overhead_seconds"])
    ['forward_seconds']
    """
    return [name for name in columns if name.endswith(_SECONDS) and not name.startswith(_OWN) and name != _SUBTRACTED]


def _list_time_columns(seconds: str, layers: LayerTable, rows: Sequence[Row], is_whole: bool) -> Iterator[GridColumn]:
    """Yield the columns of one kind of time, and its share of the model's.

    A grid of the slowest layers has own times if the table has them. A grid of all layers has the times with the layers
    inside; if a layer with layers inside has a notable own time, a second column shows own times.
    """
    own_seconds = f"{_OWN}{seconds}"
    has_own = own_seconds in layers.columns
    shown = seconds if is_whole or not has_own else own_seconds
    cells = [_write_seconds(row, shown, layers) for row in rows]
    yield GridColumn(_write_heading(shown), cells, is_number=True)
    whole = next((row.get(seconds) for row in layers if not row["path"]), None)
    if not has_own or not whole:
        return
    shares = ["-" if row[shown] is None else share_text(row[shown] / whole) for row in rows]
    heading = f"Share of\n{' '.join(split_words(seconds.removesuffix(_SECONDS)))}"
    yield GridColumn(heading, shares, is_number=True)
    if is_whole and any(_holds_others(row) and (row[own_seconds] or 0) >= _LEAST_OWN * whole for row in rows):
        # The own seconds of a layer without others inside are all that it has: they are shown already.
        cells = [_write_seconds(row, own_seconds, layers) if _holds_others(row) else "" for row in rows]
        yield GridColumn(_write_heading(own_seconds), cells, is_number=True)


def _write_heading(column: str) -> str:
    return write_title(column.removesuffix(_SECONDS))


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
