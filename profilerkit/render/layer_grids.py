"""The layers of a model, of two, and of several as grids; and their times.

A table of layers may have several kinds of time, such as forward and backward. Each kind is a column of seconds with
the layers inside (``forward_seconds``), and mostly one of the layer's own, without them (``own_forward_seconds``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..foreign_text import visible
from ..piping.quantity import split_words, write_title
from ..times.layer_times import LayerTimeTable
from ..times.wording import format_noise
from ..trace.alignment import name_column
from ..trace.layer_paths import within_depth
from ..trace.records import LayerTable
from .grids import Grid
from .table_grids import rank_rows, write_ranked_title
from .values import Column, share_text, write_count, write_row_value

if TYPE_CHECKING:
    from ..results.comparison import Comparison

__all__ = ["all_layers_grids", "difference_grid", "has_times", "layer_grid", "layer_time_grid"]

Row: TypeAlias = Mapping[str, Any]

_COUNTS = {"params": "Params", "macs": "MACs", "flops": "FLOPs"}
#: The columns of `Report.layerwise` that stand beside the counts where layers were timed, and what they are called.
_TIMED = {
    "forward_seconds": "Forward",
    "forward_seconds_share": "Share of\nforward",
    "backward_seconds": "Backward",
    "backward_seconds_share": "Share of\nbackward",
    "achieved_flops_per_second": "Achieved",
}
#: What a narrow terminal leaves out of a table of layers, in this order.
_LEAST_NEEDED = ("Calls", "Type", "FLOPs", "Settings", "Share of\nbackward", "Share of\nforward", "Achieved", "Change")
#: A setting of a layer as its framework writes it: ``kernel_size=(3, 3)``.
_SETTING = re.compile(r"(\w+)=(\([^()]*\)|[^,()]+)")
_NUMBER = re.compile(r"\d+")
#: The settings that are shown of layers, in the names of several frameworks, and what they are called.
_SETTINGS = {
    "kernel_size": "kernel",
    "pool_size": "kernel",
    "kernel_shape": "kernel",
    "stride": "stride",
    "strides": "stride",
    "dilation": "dilation",
    "dilation_rate": "dilation",
    "dilations": "dilation",
    "groups": "groups",
    "group": "groups",
    "in_features": "in",
    "out_features": "out",
    "units": "out",
}
_USUALLY_ONE = ("stride", "dilation", "groups")
#: What is shown of the layers of several models, a grid each.
_ALL_MODELS = {"params": "Parameters by layer", "macs": "MACs by layer", "flops": "FLOPs by layer"}
#: How the keys of the first and of the second model begin in a row of two models.
_SIDES = ("", "other_")
#: The share of the model's time that a layer which holds others must take itself, to get a column of own times.
_LEAST_OWN = 0.01
#: What columns of seconds end with, and what those of own times begin with besides.
_SECONDS, _OWN = "_seconds", "own_"
#: Seconds that are subtracted already, and so are no time of a layer.
_SUBTRACTED = "overhead_seconds"


class _GridColumn(NamedTuple):
    """A column of a grid: its title, how it writes the cell of a row, and whether the cells are numbers."""

    title: str
    write: Callable[[Row], str]
    is_number: bool = False


def layer_grid(layers: LayerTable, title: str = "Layers", *, nested: bool = True, with_seconds: bool = True) -> Grid:
    """Return the per-layer table: counts and times, each with the layers inside, and what follows from the two.

    Args:
        layers: The rows.
        title: What stands above them.
        nested: Whether a layer has its own name alone, indented below its parent; else its whole path is shown.
        with_seconds: Whether the times are shown; they are not if they have a grid of their own.
    """
    columns = [_GridColumn("Layer", partial(_write_name, nested=nested)), _GridColumn("Type", itemgetter("type"))]
    if any(map(_write_settings, layers)):
        columns.append(_GridColumn("Settings", _write_settings))
    columns.append(_GridColumn("Output shape", _write_shapes))
    if any(row["calls"] != 1 for row in layers):
        columns.append(_GridColumn("Calls", _write_calls, is_number=True))
    for key, heading in _COUNTS.items():
        columns.append(_GridColumn(heading, partial(_write_bounded, key=key), is_number=True))
    for key, heading in _TIMED.items():
        is_time = _SECONDS in key
        if layers and key in layers[0] and (with_seconds or not is_time):
            columns.append(_GridColumn(heading, partial(_write_measured, key=key), is_number=True))
    return _make_grid(title, columns, layers, nested)


def difference_grid(rows: Sequence[Row], title: str, names: tuple[str, str], *, nested: bool = True) -> Grid:
    """Return layers side by side: parameters and MACs in both models, and what became of them unless all changed.

    ``nested`` is as in `layer_grid`.
    """
    columns = [_GridColumn("Layer", partial(_write_both_names, nested=nested)), _GridColumn("Type", _write_both_types)]
    for key in ("params", "macs"):
        for side, name in zip(_SIDES, names, strict=True):
            heading = f"{_COUNTS[key]}\n{visible(name)}"
            columns.append(_GridColumn(heading, partial(_write_side, key=f"{side}{key}"), is_number=True))
    if any(_describe_change(row) != "changed" for row in rows):
        columns.append(_GridColumn("Change", _describe_change))
    grid = _make_grid(title, columns, rows, nested)
    if any(_describe_change(row) != row["change"] for row in rows):  # a difference in FLOPs, which no other column has
        return replace(grid, least_needed=())
    return grid


def all_layers_grids(comparison: Comparison, depth: int | None = None) -> Iterator[Grid]:
    """Yield the layers of all models side by side: their parameters, MACs and FLOPs, each with the layers inside.

    An empty cell is a layer that the model lacks, a hyphen one that has none of what is counted.
    """
    rows = within_depth(comparison.all_layers(*_ALL_MODELS), depth)
    for column, title in _ALL_MODELS.items():
        columns = [_GridColumn("Layer", _write_name), _GridColumn("Type", itemgetter("type"))]
        for report in comparison.reports:
            key = name_column(column, report.name)
            columns.append(_GridColumn(visible(report.name), partial(_write_side, key=key), is_number=True))
        yield _make_grid(title, columns, rows)


def _make_grid(title: str, columns: Sequence[_GridColumn], rows: Sequence[Row], nested: bool = True) -> Grid:
    """Return the grid of these columns, with a row for each layer, indented by its depth if names are nested."""
    titles = tuple(column.title for column in columns)
    cells = tuple(tuple(column.write(row) for column in columns) for row in rows)
    numeric = frozenset(index for index, column in enumerate(columns) if column.is_number)
    depths = tuple(row["depth"] for row in rows) if nested else ()
    return Grid(title, titles, cells, numeric, depths, kind="layers", least_needed=_LEAST_NEEDED)


# Cells ----------------------------------------------------------------------------------------------------------------


def _name_layer(path: str, nested: bool) -> str:
    """Return the last part of a path, or all of it; the model itself has an empty one."""
    name = path.rpartition(".")[2] if nested else path
    return name or "(model)"


def _write_name(row: Row, nested: bool = True) -> str:
    """Return the name of a layer: its path, or the last part of it inside the rows of its parents."""
    return _name_layer(row["path"], nested)


def _write_both_names(row: Row, nested: bool) -> str:
    """Return the name of a layer in the first model, with that in the second one if it differs."""
    path, other = row["path"], row["other_path"]
    name = _name_layer(path, nested)
    return name if other in (None, path) else f"{name} / {_name_layer(other, nested)}"


def _write_both_types(row: Row) -> str:
    """Return the type of a layer in the first model, with that in the second one if it differs."""
    kind, other = row["type"], row["other_type"]
    return str(kind) if other in (None, kind) else f"{kind} / {other}"


def _write_shapes(row: Row) -> str:
    return ", ".join(str(list(shape)) for shape in row.get("output_shapes") or ())


def _write_calls(row: Row) -> str:
    return str(row["calls"] or "-")


def _write_settings(row: Row) -> str:
    """Return those settings of a layer that tell most, from the text of its framework in ``configuration``.

    >>> _write_settings({"configuration": "3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False"})
    '7x7, stride 2'
    >>> _write_settings({"configuration": "in_features=512, out_features=1000, bias=True"})
    'in 512, out 1000'
    """
    settings = dict(_SETTING.findall(row.get("configuration") or ""))
    words = []
    for name, word in _SETTINGS.items():
        sizes = _NUMBER.findall(settings.get(name, ""))
        if not sizes or (word in _USUALLY_ONE and set(sizes) == {"1"}):
            continue
        if word == "kernel" and len(sizes) > 1:
            words.append("x".join(sizes))
        elif len(set(sizes)) == 1:
            words.append(f"{word} {sizes[0]}")
        else:
            words.append(f"{word} {'x'.join(sizes)}")
    return ", ".join(words)


def _write_bounded(row: Row, key: str) -> str:
    """Return a count with the sign before it, such as "≥ "."""
    sign, value = write_row_value(row, key)
    return sign + write_count(value)


def _write_measured(row: Row, key: str) -> str:
    """Return a time or what follows from times, in the unit of its column; a hyphen where nothing was measured."""
    return Column.of(key).show(row[key]) or "-"


def _write_side(row: Row, key: str) -> str:
    """Return a count of one of several models; nothing for a layer that it lacks."""
    value = row[key]
    return "" if value is None else write_count(value)


def _describe_change(row: Row) -> str:
    """Say what became of a layer; of one that differs in FLOPs alone, which have no column, how."""
    if row["change"] != "changed" or row["params_difference"] or row["macs_difference"]:
        return str(row["change"])
    return f"FLOPs {write_count(row['flops'])} to {write_count(row['other_flops'])}"


# Times ----------------------------------------------------------------------------------------------------------------


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
    columns = [_GridColumn("Layer", partial(_write_name, nested=is_whole)), _GridColumn("Type", itemgetter("type"))]
    if any(row.get("calls", 1) != 1 for row in rows):
        columns.append(_GridColumn("Calls", lambda row: str(row.get("calls", "-")), is_number=True))
    for name in _list_times(layers.columns):
        if any(row[name] is not None for row in rows):
            columns += _list_time_columns(name, layers, rows, is_whole)
    for key, heading in (("binds", "Bound by"), ("missing", "Left out")):
        if any(row.get(key) for row in rows):
            columns.append(_GridColumn(heading, itemgetter(key)))
    return _make_grid(title, columns, rows, is_whole)


def _list_times(columns: Iterable[str]) -> list[str]:
    """Return the columns of seconds that have the layers inside: one for each kind of time that a table has.

    >>> _list_times(["path", "forward_seconds", "own_forward_seconds", "overhead_seconds"])
    ['forward_seconds']
    """
    return [name for name in columns if name.endswith(_SECONDS) and not name.startswith(_OWN) and name != _SUBTRACTED]


def _list_time_columns(seconds: str, layers: LayerTable, rows: Sequence[Row], is_whole: bool) -> Iterator[_GridColumn]:
    """Yield the columns of one kind of time, and its share of the model's.

    A grid of the slowest layers has their own times, if the table does. A grid of all layers has the times with the
    layers inside; if a layer that holds others has a notable time of its own, a second column has these own times.
    """
    own_seconds = f"{_OWN}{seconds}"
    has_own = own_seconds in layers.columns
    shown = seconds if is_whole or not has_own else own_seconds
    yield _make_seconds_column(shown, layers)
    model_seconds = next((row.get(seconds) for row in layers if not row["path"]), None)
    if not has_own or not model_seconds:
        return
    heading = f"Share of\n{' '.join(split_words(seconds.removesuffix(_SECONDS)))}"
    yield _GridColumn(heading, partial(_write_share, column=shown, whole=model_seconds), is_number=True)
    if is_whole and _has_notable_own_time(own_seconds, rows, model_seconds):
        yield _make_seconds_column(own_seconds, layers, only_around_others=True)


def _has_notable_own_time(own_seconds: str, rows: Iterable[Row], model_seconds: float) -> bool:
    """Return whether a layer that holds others takes a hundredth of the model's time itself, or more."""
    return any(_holds_others(row) and (row[own_seconds] or 0) >= _LEAST_OWN * model_seconds for row in rows)


def _holds_others(row: Row) -> bool:
    """Return whether a layer has others inside; a table that does not say so has none that do."""
    return not row.get("is_leaf", True)


def _make_seconds_column(column: str, layers: LayerTable, *, only_around_others: bool = False) -> _GridColumn:
    """Return a column of seconds; where it is ``only_around_others``, layers that hold none have an empty cell."""

    def write(row: Row) -> str:
        if only_around_others and not _holds_others(row):
            return ""
        return _write_seconds(row, column, layers)

    return _GridColumn(write_title(column.removesuffix(_SECONDS)), write, is_number=True)


def _write_share(row: Row, column: str, whole: float) -> str:
    return "-" if row[column] is None else share_text(row[column] / whole)


def _write_seconds(row: Row, column: str, layers: LayerTable) -> str:
    """Return seconds, with their noise where a table has the samples: "3 ms ±33%"; "-" for none."""
    text = Column.of(column).show(row[column]) or "-"
    if not isinstance(layers, LayerTimeTable) or not row[column]:
        return text
    measured = layers.measurement(row["path"], column)
    return f"{text} {format_noise(measured.noise, digits=0)}" if len(measured.samples) > 1 else text
