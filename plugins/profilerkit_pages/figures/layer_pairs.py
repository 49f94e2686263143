"""Bars of the layers of two models: a row for each layer of both, or if they share few, a panel for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from profilerkit.render.values import Column, write_row_value
from profilerkit.results.comparison import Comparison
from profilerkit.trace.layer_paths import find_deepest
from profilerkit.trace.layer_table import is_innermost
from profilerkit.trace.records import LayerTable

from ..page_pairs import read_pair
from .canvas import COLOURS, finish, legend_above, name_bars, new_figure, plain, title_bars, unit_for
from .reading import explain_column, label_layer, require_column, require_layers

#: The largest bars of two models that differ by more do not share an axis.
_FAR = 5
#: Models that share a smaller part of their layers than this have bars of their own each.
_ALIKE = 0.5
#: How far the bars of both models lie above and below the middle of their layer's row.
_SHIFTS = (-0.2, 0.2)


class Bar(NamedTuple):
    """A bar of a layer: its value, None if it is not known, and the text behind it, with the sign of a bound."""

    value: float | None
    text: str


class LayerPair(NamedTuple):
    """A layer of two models.

    Attributes:
        label: Its path; behind a slash its name in the other model, if it is different there.
        reference: Its bar in the reference.
        other: Its bar in the other model.
    """

    label: str
    reference: Bar
    other: Bar


def choose_column(comparison: Comparison, by: str | Sequence[str] | None) -> str:
    """Return the column to compare: the requested column, else forward time if both were timed, else MACs.

    Raises `ValueError` for several columns, and if one of the reports lacks the column.
    """
    tables = [require_layers(report) for report in comparison.reports]
    if by is None:
        timed = all(any(row.get("forward_seconds") is not None for row in table) for table in tables)
        by = "forward_seconds" if timed else "macs"
    columns = (by,) if isinstance(by, str) else tuple(by)
    if len(columns) != 1:
        raise ValueError(f"layer_bars draws one column of two models, not {', '.join(columns)}; give one of them")
    for report, table in zip(comparison.reports, tables, strict=True):
        require_column(report, table, columns[0])
    return columns[0]


def find_pairs(comparison: Comparison, by: str, depth: int | None, top: int) -> list[LayerPair]:
    """Return the layers with the largest value in either model, the largest first.

    They are the layers at this depth of both trees; for None and negative depths, layers that are innermost in a model.
    """
    rows = comparison.layers()
    level = None if depth is None or depth < 0 else min(depth, find_deepest(rows))
    references, others = ({row["path"]: row for row in require_layers(report)} for report in comparison.reports)
    pairs = []
    for row in rows:
        reference, other = read_pair(row, references, others)
        is_drawn = _is_innermost(reference, other, by) if level is None else row["depth"] == level
        if is_drawn:
            pairs.append(LayerPair(_label_pair(row), _make_bar(reference, by), _make_bar(other, by)))
    return sorted(pairs, key=lambda pair: -max(pair.reference.value or 0, pair.other.value or 0))[:top]


def _make_bar(layer: Mapping[str, Any], by: str) -> Bar:
    """Return the bar of a column of a layer; an empty one for an empty layer, which a model lacks."""
    sign, number = write_row_value(layer, by)
    return Bar(layer.get(by), f"{sign}{Column.of(by).show(number)}")


def _is_innermost(reference: Mapping[str, Any], other: Mapping[str, Any], by: str) -> bool:
    """Return whether a layer is innermost in one of two models; a model that lacks the layer has an empty one."""
    return any(layer and is_innermost(layer, by) for layer in (reference, other))


def _label_pair(row: Mapping[str, Any]) -> str:
    label = label_layer(row)
    has_other_name = row["change"] != "added" and row["other_path"] not in (None, row["path"])
    return f"{label} / {row['other_path'].rpartition('.')[2]}" if has_other_name else label


def draw_pairs(comparison: Comparison, by: str, top: int, depth: int | None) -> Any:
    """Return the figure of two models: a row for each layer with a bar for each model, or a panel for each model.

    Raises `ValueError` if no layer lies at the depth.
    """
    changes = [row["change"] for row in comparison.layers()]
    shared = sum(change not in ("removed", "added") for change in changes)
    if shared >= _ALIKE * len(changes):
        pairs = find_pairs(comparison, by, depth, top)
        _require_rows(pairs, comparison, depth)
        figure, note = _draw_aligned(comparison, pairs, by), "A layer that one of the models lacks has one bar."
    else:
        tables = [require_layers(report).top(top, by, depth) for report in comparison.reports]
        _require_rows([*tables[0], *tables[1]], comparison, depth)
        largest = [max((row[by] or 0.0 for row in table), default=0.0) for table in tables]
        is_far = max(largest) > _FAR * min(largest)  # one axis would hide the bars of one model
        figure = _draw_apart(comparison, tables, by, has_one_axis=not is_far)
        distance = " They lie far apart: each has an axis of its own." if is_far else ""
        note = f"The models share few layers: each has the largest of its own.{distance}"
    names = " and ".join(plain(report.name, 24) for report in comparison.reports)
    notes = [note, *explain_column(comparison.reports, by)]
    return finish(figure, comparison.reports, f"layers by {Column.of(by).in_a_sentence} of {names}", notes)


def _require_rows(rows: Sequence[object], comparison: Comparison, depth: int | None) -> None:
    if not rows:
        raise ValueError(f"no layer of {comparison.reference.name} lies at depth {depth}; give another depth, or None")


def _draw_aligned(comparison: Comparison, pairs: Sequence[LayerPair], by: str) -> Any:
    """Return a figure with a row for each layer and a bar for each model."""
    column = Column.of(by)
    figure = new_figure(8.5, 1.5 + 0.36 * len(pairs))
    axis = figure.subplots()
    both = [pair.reference for pair in pairs], [pair.other for pair in pairs]
    scale = _choose_scale([*both[0], *both[1]], column)
    for report, bars, shift, colour in zip(comparison.reports, both, _SHIFTS, COLOURS[:2], strict=True):
        heights = [position + shift for position in range(len(pairs))]
        _draw_bars(axis, heights, bars, scale, height=0.38, color=colour, label=plain(report.name, 28))
    _finish_axis(axis, [pair.label for pair in pairs], scale)
    legend_above(axis)
    return figure


def _draw_apart(comparison: Comparison, tables: Sequence[LayerTable], by: str, *, has_one_axis: bool) -> Any:
    """Return a figure with a panel for each model, with its own largest layers."""
    figure = new_figure(11.5, 1.5 + 0.26 * max(map(len, tables)))
    axes = figure.subplots(1, 2, sharex=has_one_axis)
    both = [[_make_bar(row, by) for row in table] for table in tables]
    for axis, table, bars, report, colour in zip(axes, tables, both, comparison.reports, COLOURS[:2], strict=True):
        scale = _choose_scale([*both[0], *both[1]] if has_one_axis else bars, Column.of(by))
        _draw_bars(axis, range(len(table)), bars, scale, height=0.72, color=colour)
        axis.set_title(plain(report.name, 40), fontsize="medium", loc="left")
        _finish_axis(axis, [label_layer(row) for row in table], scale)
        axis.set_ylim(bottom=max(map(len, tables)) - 0.4)  # the bars of both models are equally thick
    return figure


class _Scale(NamedTuple):
    """The scale of bars: their column, its unit on the axis, and the value of one unit."""

    column: Column
    unit: str
    factor: float


def _choose_scale(bars: Sequence[Bar], column: Column) -> _Scale:
    factor, unit = unit_for(max((bar.value or 0.0 for bar in bars), default=0.0), column.unit, column.scale)
    return _Scale(column, unit, factor)


def _draw_bars(axis: Any, heights: Sequence[float], bars: Sequence[Bar], scale: _Scale, **look: Any) -> None:
    """Draw each bar at its height, with its text beside it."""
    drawn = axis.barh(heights, [(bar.value or 0) / scale.factor for bar in bars], **look)
    axis.bar_label(drawn, [bar.text for bar in bars], padding=3, fontsize="x-small")


def _finish_axis(axis: Any, labels: Sequence[str], scale: _Scale) -> None:
    name_bars(axis, labels)
    title_bars(axis, scale.column.title, scale.unit)
    axis.margins(x=0.18)
    axis.set_xlim(left=0)
