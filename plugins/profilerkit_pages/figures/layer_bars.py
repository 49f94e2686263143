"""Bars of the layers, or of the types of layers, with the largest values of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profilerkit.arguments.checks import COLUMNS, DEPTH, FLAG, TOP
from profilerkit.render.values import Column, share_text, write_row_value
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report
from profilerkit.trace.records import LayerTable

from .canvas import COLOURS, finish, legend_above, name_bars, new_figure, title_bars, unit_for
from .layer_pairs import choose_column, draw_pairs
from .reading import explain_column, has_numbers, label_layer, one_or_two, require_column, require_layers

#: Inches: the width of the names and of one panel, and the height of the titles and of one layer.
_WIDTH_OF_NAMES, _WIDTH_OF_PANEL = 5.0, 3.2
_HEIGHT_OF_TITLES, _HEIGHT_OF_LAYER = 1.5, 0.24
#: How thick a bar is, of the height of its layer.
_THICKNESS = 0.72
#: How far a panel goes beyond its longest bar, so that there is space for the number behind it.
_BEYOND = 1.25


def layer_bars(
    result: Report | Comparison,
    by: str | Sequence[str] | None = None,
    top: int = 20,
    depth: int | None = None,
    types: bool = False,
) -> Any:
    """Return a figure with bars of the layers that have the largest values of a column of `Report.layerwise`.

    For two models each layer has two bars, aligned like in `Comparison.layers`.

    Args:
        result: The report of one model, or a comparison of two.
        by: One or several columns. By default own forward and backward time if the layers were timed, MACs otherwise.
            The first one ranks the layers. Each column has its own bars; a ``backward`` column that directly follows
            its ``forward`` column is stacked on it.
        top: The number of layers that are drawn.
        depth: Only layers at this depth; None means the innermost layers, or all layers for an ``own_`` column.
        types: Draw types of layers instead of layers, each with the sum over its layers.

    Raises:
        ValueError: the report has no layers, no such column, or no layer at this depth; or a comparison has more than
            two models, or is drawn by several columns or by types.
        ImportError: matplotlib is missing.
    """
    by, top, depth, types = COLUMNS("by", by), TOP("top", top), DEPTH("depth", depth), FLAG("types", types)
    report, *_ = one_or_two(result, "layer_bars")
    if not isinstance(result, Comparison):
        return _draw_types(report, by, top, depth) if types else _draw_layers(report, by, top, depth)
    if types:
        raise ValueError("layer_bars draws layers of two models, not types of them; give one of its reports")
    return draw_pairs(result, choose_column(result, by), top, depth)


def _draw_layers(report: Report, by: str | Sequence[str] | None, top: int, depth: int | None) -> Any:
    layers = require_layers(report)
    columns = _select_columns(report, layers, by)
    ranked = layers.top(len(layers), columns[0], depth)
    if columns[0].startswith("own_"):
        ranked = LayerTable(row for row in ranked if row[columns[0]] or row["is_leaf"])
    return _draw(report, ranked, columns, top, "layers", depth)


def _draw_types(report: Report, by: str | Sequence[str] | None, top: int, depth: int | None) -> Any:
    types = require_layers(report).by_type(depth)
    columns = _select_columns(report, types, by)
    return _draw(report, types.top(len(types), columns[0]), columns, top, "types of layers", depth)


def _select_columns(report: Report, rows: LayerTable, by: str | Sequence[str] | None) -> list[str]:
    """Return the requested columns, or those that are drawn by default; raises `ValueError` for one without numbers."""
    columns = [by] if isinstance(by, str) else list(by or _choose_columns(rows))
    for name in columns:
        require_column(report, rows, name)
    return columns


def _choose_columns(table: LayerTable) -> Sequence[str]:
    """Return the columns of the layers' own times, in types without the word "own"; MACs if there are no times."""
    start = "own_" if "own_forward_seconds" in table.columns else ""
    times = (f"{start}forward_seconds", f"{start}backward_seconds")
    return [name for name in times if name in table.columns and has_numbers(table, name)] or ["macs"]


def _draw(report: Report, ranked: LayerTable, columns: Sequence[str], top: int, thing: str, depth: int | None) -> Any:
    """Return the figure of the first ranked rows; ``thing`` is what they are: layers, or types of layers."""
    if not len(ranked):
        raise ValueError(f"no layer of {report.name} lies at depth {depth}; give another depth, or None")
    shown, by = ranked[:top], columns[0]
    whole, measure = sum(row[by] for row in ranked), Column.of(by).in_a_sentence
    share = share_text(sum(row[by] for row in shown) / whole if whole else 1.0)
    note = f"{len(shown)} of {len(ranked)} {thing}, with {share} of the {measure} of all of these."
    gaps = dict.fromkeys(gap for name in columns for gap in explain_column([report], name))
    return finish(_draw_panels(shown, columns), [report], f"{thing} by {measure}", [note, *gaps])


def _draw_panels(shown: LayerTable, columns: Sequence[str]) -> Any:
    """Return a figure with a panel of bars for each group of columns; the names of the rows stand at the first."""
    panels = _group_columns(columns)
    width = _WIDTH_OF_NAMES + _WIDTH_OF_PANEL * len(panels)
    figure = new_figure(width, _HEIGHT_OF_TITLES + _HEIGHT_OF_LAYER * len(shown))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, names in zip(axes, panels, strict=True):
        _draw_panel(axis, shown, names)
    name_bars(axes[0], [label_layer(row) if "path" in row else f"{row['type']} ({row['layers']})" for row in shown])
    return figure


def _group_columns(columns: Sequence[str]) -> list[list[str]]:
    """Return the columns of each panel: a backward column is stacked on the forward column that it follows."""
    panels: list[list[str]] = []
    for name in columns:
        last = panels[-1][-1] if panels else ""
        if "forward" in last and name == last.replace("forward", "backward"):
            panels[-1].append(name)
        else:
            panels.append([name])
    return panels


def _draw_panel(axis: Any, shown: LayerTable, names: Sequence[str]) -> None:
    """Draw a bar for each row: the value of one column, or stacked, of a forward and a backward column."""
    column = Column.of(names[0])
    factor, unit = unit_for(max(sum(row[name] or 0.0 for name in names) for row in shown), column.unit, column.scale)
    title, phases = column.in_a_sentence, ("Forward", "Backward") if len(names) > 1 else (None,)
    ends = [0.0] * len(shown)
    for color, name, phase in zip(COLOURS, names, phases, strict=False):
        widths = [(row[name] or 0.0) / factor for row in shown]
        bars = axis.barh(range(len(shown)), widths, left=ends, color=color, height=_THICKNESS, label=phase)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    # Behind the bars of the last column, which end where the whole bar ends.
    axis.bar_label(bars, [_write_value(row, names, column) for row in shown], padding=3, fontsize="x-small")
    axis.set_xlim(0, max(*ends, 0.0, 1e-12) * _BEYOND)
    if len(names) > 1:
        title = title.replace("forward", "forward and backward")
        legend_above(axis)
    title_bars(axis, title, unit)


def _write_value(row: Mapping[str, Any], names: Sequence[str], column: Column) -> str:
    """Return the sum of some columns of a row; a count that is a bound has its sign in front."""
    written = [write_row_value(row, name) for name in names]
    numbers = [number for _, number in written if number is not None]
    return f"{written[0][0]}{column.show(sum(numbers))}" if numbers else "-"
