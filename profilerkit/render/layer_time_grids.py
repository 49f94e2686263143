"""The times of layers as a grid: all layers in their order, or the slowest ones where they are many.

A table of layers may have several kinds of time, such as forward and backward. Each kind is a column of seconds with
the layers inside (``forward_seconds``), and mostly one of the layer's own, without them (``own_forward_seconds``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from ..piping.titles import split_words, write_title
from ..times.layer_times import LayerTimeTable
from ..times.wording import format_noise
from ..trace.depths import within_depth
from ..trace.records import LayerTable
from .columns import Column, share_text
from .grids import Grid
from .layer_grids import GridColumn, make_grid, write_name
from .ranking import rank_rows, write_ranked_title

__all__ = ["has_times", "layer_time_grid"]

Row: TypeAlias = Mapping[str, Any]

#: What a layer that holds others must do itself, as a share of the whole model, to get a column for it.
_LEAST_OWN = 0.01
#: What columns of seconds end with, and what those of own times begin with besides.
_SECONDS, _OWN = "_seconds", "own_"
#: Seconds that are subtracted already, and so are no time of a layer.
_SUBTRACTED = "overhead_seconds"


class _TimeKind(NamedTuple):
    """A kind of time, such as the forward one.

    Attributes:
        name: Its name as a key: "forward".
        seconds: The column with the layers inside: "forward_seconds".
        own_seconds: The column without them: "own_forward_seconds"; None where the table has none.
    """

    name: str
    seconds: str
    own_seconds: str | None


def has_times(table: object) -> bool:
    """Return whether a table has seconds of layers."""
    return isinstance(table, LayerTable) and any(name.endswith(_SECONDS) for name in table.columns)


def layer_time_grid(title: str, layers: LayerTable, top: int, depth: int | None = None) -> Grid:
    """Return the times of layers, each with its noise and its share of the whole model.

    A table of up to ``top`` layers is shown whole: the layers in their order, each with the time of the layers inside
    it. Of a longer table the slowest ``top`` layers are shown, ranked by their own time, without the layers inside, as
    all other lists of slow layers are.

    Args:
        title: What stands above it.
        layers: The table.
        top: The most rows.
        depth: The deepest layers to show; None and -1 for those at any depth.
    """
    rows = within_depth(layers, depth)
    is_whole = len(rows) <= top
    if not is_whole:
        ranked = rank_rows(rows)
        title = write_ranked_title(title, ranked, min(top, len(ranked.rows)), len(rows))
        rows = list(ranked.rows[:top])
    columns = [GridColumn("Layer", partial(write_name, nested=is_whole)), GridColumn("Type", itemgetter("type"))]
    if any(row.get("calls", 1) != 1 for row in rows):
        columns.append(GridColumn("Calls", lambda row: str(row.get("calls", "-")), is_number=True))
    for kind in _list_time_kinds(layers.columns):
        if any(row[kind.seconds] is not None for row in rows):
            columns += _list_columns_of_all(kind, layers, rows) if is_whole else _list_columns_of_slowest(kind, layers)
    for key, heading in (("binds", "Bound by"), ("missing", "Left out")):
        if any(row.get(key) for row in rows):
            columns.append(GridColumn(heading, itemgetter(key)))
    return make_grid(title, columns, rows, is_whole)


def _list_time_kinds(columns: Iterable[str]) -> list[_TimeKind]:
    """Return the kinds of time that a table has, by the names of its columns.

    >>> _list_time_kinds(["path", "forward_seconds", "own_forward_seconds", "overhead_seconds"])
    [_TimeKind(name='forward', seconds='forward_seconds', own_seconds='own_forward_seconds')]
    """
    names = [name for name in columns if name.endswith(_SECONDS) and name != _SUBTRACTED]
    return [
        _TimeKind(name.removesuffix(_SECONDS), name, _OWN + name if _OWN + name in names else None)
        for name in names
        if not name.startswith(_OWN)
    ]


def _list_columns_of_all(kind: _TimeKind, layers: LayerTable, rows: Sequence[Row]) -> list[GridColumn]:
    """Return the columns of a kind of time in a grid of all layers: the time with the layers inside, and its share.

    Layers that hold others have their own time in a column besides, if it is notable; that of the others is in the
    first column already.
    """
    columns = [_make_seconds_column(kind.name, kind.seconds, layers)]
    model_seconds = _find_model_seconds(kind, layers)
    if kind.own_seconds is not None and model_seconds:
        columns.append(_make_share_column(kind, kind.seconds, model_seconds))
        if _has_notable_own_time(kind.own_seconds, rows, model_seconds):
            columns.append(_make_seconds_column(_OWN + kind.name, kind.own_seconds, layers, only_around_others=True))
    return columns


def _list_columns_of_slowest(kind: _TimeKind, layers: LayerTable) -> list[GridColumn]:
    """Return the columns of a kind of time in a grid of the slowest layers: their own time, and its share."""
    if kind.own_seconds is None:
        return [_make_seconds_column(kind.name, kind.seconds, layers)]
    columns = [_make_seconds_column(_OWN + kind.name, kind.own_seconds, layers)]
    model_seconds = _find_model_seconds(kind, layers)
    if model_seconds:
        columns.append(_make_share_column(kind, kind.own_seconds, model_seconds))
    return columns


def _find_model_seconds(kind: _TimeKind, layers: LayerTable) -> float | None:
    """Return the seconds of the model itself, whose path is empty; None if the table has no such row or time."""
    return next((row.get(kind.seconds) for row in layers if not row["path"]), None)


def _has_notable_own_time(own_seconds: str, rows: Iterable[Row], model_seconds: float) -> bool:
    """Return whether a layer that holds others takes a hundredth of the model's time itself, or more."""
    return any(_holds_others(row) and (row[own_seconds] or 0) >= _LEAST_OWN * model_seconds for row in rows)


def _holds_others(row: Row) -> bool:
    """Return whether a layer has others inside; a table that does not say so has none that do."""
    return not row.get("is_leaf", True)


def _make_seconds_column(name: str, column: str, layers: LayerTable, *, only_around_others: bool = False) -> GridColumn:
    """Return a column of seconds; where it is ``only_around_others``, layers that hold none have an empty cell."""

    def write(row: Row) -> str:
        if only_around_others and not _holds_others(row):
            return ""
        return _write_seconds(row, column, layers)

    return GridColumn(write_title(name), write, is_number=True)


def _make_share_column(kind: _TimeKind, column: str, model_seconds: float) -> GridColumn:
    """Return the share that a column of seconds has of the model's."""

    def write(row: Row) -> str:
        return "-" if row[column] is None else share_text(row[column] / model_seconds)

    return GridColumn(f"Share of\n{' '.join(split_words(kind.name))}", write, is_number=True)


def _write_seconds(row: Row, column: str, layers: LayerTable) -> str:
    """Return seconds, with their noise where a table has the samples: "3 ms ±33%"; "-" for none."""
    text = Column.of(column).show(row[column]) or "-"
    if not isinstance(layers, LayerTimeTable) or not row[column]:
        return text
    measured = layers.measurement(row["path"], column)
    return f"{text} {format_noise(measured.noise, digits=0)}" if len(measured.samples) > 1 else text
