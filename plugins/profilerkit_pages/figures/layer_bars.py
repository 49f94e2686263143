"""Bars of the layers, or of the types of layers, with the largest values of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profilerkit.arguments.checks import COLUMNS, DEPTH, FLAG, TOP
from profilerkit.render.values import Column
from profilerkit.results.comparison import Comparison
from profilerkit.trace.records import LayerTable

from .canvas import COLOURS, finish, legend_above, name_bars, new_figure, title_bars, unit_for
from .layer_pairs import choose_column, draw_pairs
from .reading import explain_column, label_layer, one_or_two, require_column, require_layers

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["layer_bars"]

#: Inches: the width of the names and of one panel, and the height of the titles and of one layer.
_WIDTH_OF_NAMES, _WIDTH_OF_PANEL = 5.0, 3.2
_HEIGHT_OF_TITLES, _HEIGHT_OF_LAYER = 1.5, 0.24
#: How thick a bar is, of the height of its layer.
_THICKNESS = 0.72
#: How far a panel goes beyond its longest bar, so that there is space for the number behind it.
_BEYOND = 1.25


@dataclass(frozen=True)
class _Panel:
    """The bars of one column, or of several columns that are stacked: forward and backward time."""

    columns: tuple[str, ...]

    def sum(self, row: Mapping[str, Any]) -> float | None:
        """Return the length of a layer's bar; None if it has no value."""
        values = [row[name] for name in self.columns if row[name] is not None]
        return sum(values) if values else None

    def describe(self) -> str:
        """Return the meaning of the bars, as part of a sentence: ``forward and backward time``."""
        words = Column.of(self.columns[0]).in_a_sentence
        return words if len(self.columns) == 1 else words.replace("forward", "forward and backward")


def layer_bars(
    result: Report | Comparison,
    by: str | Sequence[str] | None = None,
    top: int = 20,
    depth: int | None = None,
    types: bool = False,
) -> Any:
    """Return a figure with bars of the layers that have the largest values of a column of `Report.layerwise`.

    For two models each layer has two bars, aligned like in `Comparison.layers`; if they share fewer than half of their
    layers, each model has bars of its own largest layers.

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
    reports = one_or_two(result, "layer_bars")
    if isinstance(result, Comparison):
        if types:
            raise ValueError("layer_bars draws layers of two models, not types of them; give one of its reports")
        return draw_pairs(result, choose_column(result, by), top, depth)
    report = reports[0]
    layers = require_layers(report)
    rows = layers.by_type(depth) if types else layers
    columns = [by] if isinstance(by, str) else by or _choose_columns(rows)
    for name in columns:
        require_column(report, rows, name)
    ranked = _rank(rows, columns[0], None if types else depth)
    if not len(ranked):
        raise ValueError(f"no layer of {report.name} lies at depth {depth}; give another depth, or None")
    return _draw(report, ranked, _group_columns(columns), top, types)


def _choose_columns(layers: LayerTable) -> Sequence[str]:
    """Return the columns of the layers' own times, in types without the word "own"; MACs if there are no times."""
    start = "own_" if "own_forward_seconds" in layers[0] else ""
    times = (f"{start}forward_seconds", f"{start}backward_seconds")
    return [name for name in times if name in layers[0]] or ["macs"]


def _rank(rows: LayerTable, by: str, depth: int | None) -> LayerTable:
    """Return layers or types, the largest first; by an own column without layers that have no own work."""
    ranked = rows.top(len(rows), by, depth)
    return LayerTable(row for row in ranked if row[by] or row["is_leaf"]) if by.startswith("own_") else ranked


def _group_columns(columns: Sequence[str]) -> list[_Panel]:
    """Return the panels of columns: a backward column is stacked on the forward column that it follows."""
    groups: list[list[str]] = []
    for name in columns:
        last = groups[-1][-1] if groups else ""
        if "forward" in last and name == last.replace("forward", "backward"):
            groups[-1].append(name)
        else:
            groups.append([name])
    return [_Panel(tuple(group)) for group in groups]


def _draw(report: Report, ranked: LayerTable, panels: list[_Panel], top: int, types: bool) -> Any:
    """Return the figure of the first ``top`` rows of ranked layers, or of ranked types."""
    shown = ranked[:top]
    width = _WIDTH_OF_NAMES + _WIDTH_OF_PANEL * len(panels)
    figure = new_figure(width, _HEIGHT_OF_TITLES + _HEIGHT_OF_LAYER * len(shown))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        _draw_panel(axis, shown, panel)
    names = [f"{row['type']} ({row['layers']})" if types else label_layer(row) for row in shown]
    name_bars(axes[0], names)
    kind = "types of layers" if types else "layers"
    by = panels[0].columns[0]
    gaps = [note for panel in panels for name in panel.columns for note in explain_column([report], name)]
    notes = [_write_share(ranked, shown, by, kind), *dict.fromkeys(gaps)]
    return finish(figure, [report], f"{kind} by {Column.of(by).in_a_sentence}", notes)


def _write_share(ranked: LayerTable, shown: LayerTable, by: str, kind: str) -> str:
    """Return the note on how much of a column the shown rows have."""
    whole = sum(row[by] for row in ranked)
    share = Column.of("_share").show(sum(row[by] for row in shown) / whole if whole else 1.0)
    return f"{len(shown)} of {len(ranked)} {kind}, with {share} of the {Column.of(by).in_a_sentence} of all of these."


def _draw_panel(axis: Any, shown: LayerTable, panel: _Panel) -> None:
    totals = [panel.sum(row) for row in shown]
    column = Column.of(panel.columns[0])
    factor, unit = unit_for(max((total or 0.0 for total in totals), default=0.0), column.unit, column.scale)
    ends = [0.0] * len(shown)
    for color, name in zip(COLOURS, panel.columns, strict=False):
        widths = [(row[name] or 0.0) / factor for row in shown]
        word = Column.of(name.removeprefix("own_")).title.partition(" ")[0] if len(panel.columns) > 1 else None
        bars = axis.barh(range(len(shown)), widths, left=ends, color=color, height=_THICKNESS, label=word)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    # Behind the bars of the last column, which end where the whole bar ends.
    axis.bar_label(bars, [column.show(total) or "-" for total in totals], padding=3, fontsize="x-small")
    axis.set_xlim(0, max(*ends, 0.0, 1e-12) * _BEYOND)
    title_bars(axis, panel.describe(), unit)
    if len(panel.columns) > 1:
        legend_above(axis)
