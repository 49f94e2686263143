"""The times of layers as a grid: all layers in their order, or the slowest ones where they are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias

from ..piping.titles import write_title
from ..times.layer_times import LayerTimeTable
from ..times.wording import noise_text
from ..trace.depths import within_depth
from ..trace.records import LayerTable
from .columns import Column, share_text
from .grids import Grid
from .layer_grids import GridColumn, make_grid, write_name
from .table_grids import rank_rows, write_ranked_title

__all__ = ["has_times", "layer_time_grid"]

Row: TypeAlias = Mapping[str, Any]

#: What a layer that holds others must do itself, as a share of the whole model, to get a column for it.
_LEAST_OWN = 0.01
#: Seconds that are subtracted already, and so are no time of a layer.
_SUBTRACTED = "overhead_seconds"


def has_times(table: object) -> bool:
    """Return whether a table has seconds of layers."""
    return isinstance(table, LayerTable) and any(name.endswith("_seconds") for name in table.columns)


def layer_time_grid(title: str, layers: LayerTable, top: int, depth: int | None = None) -> Grid:
    """Return the times of layers, each with its noise and its share of the whole model.

    Up to ``top`` layers stand in their order, with the layers inside them. Of more the slowest are shown, with their
    own time: that without the layers inside, by which the slowest layer is found everywhere.

    Args:
        title: What stands above it.
        layers: The table; its seconds are columns with and without ``own_``, or seconds of another kind.
        top: The most rows.
        depth: The deepest layers to show; None and -1 for those at any depth.
    """
    rows = within_depth(layers, depth)
    nested = len(rows) <= top
    if not nested:
        ranked = rank_rows(rows)
        title = write_ranked_title(title, ranked, len(ranked.rows[:top]), len(rows))
        rows = list(ranked.rows[:top])
    columns = [GridColumn("Layer", partial(write_name, nested=nested)), GridColumn("Type", itemgetter("type"))]
    if any(row.get("calls", 1) != 1 for row in rows):
        columns.append(GridColumn("Calls", lambda row: str(row.get("calls", "-")), is_number=True))
    columns += _TimeColumns(layers, rows, nested)
    for key, heading in (("binds", "Bound by"), ("missing", "Left out")):
        if any(row.get(key) for row in rows):
            columns.append(GridColumn(heading, itemgetter(key)))
    return make_grid(title, columns, rows, nested)


class _TimeColumns:
    """The columns of seconds of some rows, without those that repeat others."""

    def __init__(self, layers: LayerTable, rows: Sequence[Row], nested: bool) -> None:
        self._layers, self._rows, self._nested = layers, rows, nested
        self._whole: Row = next((row for row in layers if not row["path"]), {})

    def __iter__(self) -> Iterator[GridColumn]:
        names = [name for name in self._layers.columns if name.endswith("_seconds") and name != _SUBTRACTED]
        for name in names:
            has_own = f"own_{name}" in names
            if not name.startswith("own_") and any(row[name] is not None for row in self._rows):
                yield from self._list_columns(name, has_own)

    def _list_columns(self, name: str, has_own: bool) -> Iterator[GridColumn]:
        """Yield the column of one kind of seconds, its share, and what layers around others do themselves."""
        own_name, whole = f"own_{name}", self._whole.get(name)
        shown = own_name if has_own and not self._nested else name
        yield self._make_column(shown)
        if not has_own or not whole:
            return
        words = Column.of(name).in_a_sentence.removesuffix(" time")
        yield GridColumn(f"Share of\n{words}", lambda row: _write_share(row[shown], whole), is_number=True)
        around = [row for row in self._rows if not row.get("is_leaf", True)]
        if self._nested and any((row[own_name] or 0) >= _LEAST_OWN * whole for row in around):
            yield self._make_column(own_name, lambda row: not row["is_leaf"])

    def _make_column(self, name: str, is_shown: Callable[[Row], bool] = lambda row: True) -> GridColumn:
        heading = write_title(name.removesuffix("_seconds"))
        return GridColumn(heading, lambda row: self._write(row, name) if is_shown(row) else "", is_number=True)

    def _write(self, row: Row, name: str) -> str:
        """Return seconds with their noise, where the samples are there."""
        text = Column.of(name).show(row[name]) or "-"
        if not isinstance(self._layers, LayerTimeTable) or not row[name]:
            return text
        measured = self._layers.measurement(row["path"], name)
        return f"{text} {noise_text(measured.noise, 0)}" if len(measured.samples) > 1 else text


def _write_share(seconds: float | None, whole: float) -> str:
    return "-" if seconds is None else share_text(seconds / whole)
