"""Bars of the layers, or of the types of layers, with the largest values of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.arguments.checks import COLUMNS, DEPTH, FLAG, TOP
from profilerkit.render.columns import Column
from profilerkit.results.comparison import Comparison
from profilerkit.trace.records import LayerTable

from .canvas import (
    COLOURS,
    finish,
    label_layer,
    legend_above,
    new_figure,
    one_or_two,
    plain,
    require_column,
    require_layers,
    title_axis,
    unit_for,
)
from .layer_pairs import column_of_both, draw_pairs

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["layer_bars"]

_Bars = tuple[str, ...]


def layer_bars(
    result: Report | Comparison,
    by: str | Sequence[str] | None = None,
    top: int = 20,
    depth: int | None = None,
    types: bool = False,
) -> Any:
    """Return a figure with bars of the layers that have the largest values of a column of `Report.layerwise`.

    Of two models each layer has a bar for each of them, aligned as `Comparison.layers` does; where they share fewer
    than half of their layers, each has the largest of its own.

    Args:
        result: The report of one model, or a comparison of two.
        by: One or several columns. By default own forward and backward time if the layers were timed, MACs otherwise.
            The first one ranks the layers. Each column has its own bars; a ``backward`` column that directly follows
            its ``forward`` column is stacked on it.
        top: The number of layers that are drawn.
        depth: Only layers at this depth; None means the innermost layers, or all of them by what they do themselves.
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
        return draw_pairs(result, column_of_both(result, by), top, depth)
    report = reports[0]
    layers = require_layers(report)
    if types:
        layers, depth = layers.by_type(depth), None
    panels = _group_columns((by,) if isinstance(by, str) else by or _choose_columns(layers))
    for name in (name for panel in panels for name in panel):
        require_column(report, layers, name)
    by_first = panels[0][0]
    every = layers.top(len(layers), by_first, depth)
    if by_first.startswith("own_"):
        every = LayerTable(row for row in every if row[by_first] or row["is_leaf"])  # others do nothing themselves
    if not len(every):
        raise ValueError(f"no layer of {report.name} lies at depth {depth}; give another depth, or None")
    return _draw(report, every, panels, top, types)


def _choose_columns(layers: LayerTable) -> Sequence[str]:
    """Return the time of the layers themselves, which types have without the word "own"; their MACs without times."""
    start = "own_" if "own_forward_seconds" in layers[0] else ""
    times = (f"{start}forward_seconds", f"{start}backward_seconds")
    return [name for name in times if name in layers[0]] or ["macs"]


def _group_columns(columns: Sequence[str]) -> list[_Bars]:
    """Return groups of columns: those that are stacked share a group."""
    panels: list[_Bars] = []
    for name in columns:
        if panels and "forward" in panels[-1][-1] and name == panels[-1][-1].replace("forward", "backward"):
            panels[-1] += (name,)
        else:
            panels.append((name,))
    return panels


def _add_up(row: Any, panel: _Bars) -> float | None:
    values = [row[name] for name in panel if row[name] is not None]
    return sum(values) if values else None


def _draw(report: Report, every: LayerTable, panels: list[_Bars], top: int, types: bool) -> Any:
    shown = every[:top]
    figure = new_figure(5 + 3.2 * len(panels), 1.5 + 0.24 * len(shown))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        _draw_panel(axis, shown, panel)
    names = [f"{row['type']} ({row['layers']})" if types else label_layer(row) for row in shown]
    axes[0].set_yticks(range(len(shown)), [plain(name) for name in names], fontsize="small")
    axes[0].set_ylim(len(shown) - 0.4, -0.6)
    by, kind = panels[0][0], "types of layers" if types else "layers"
    what = Column.of(by).in_a_sentence
    whole = sum(row[by] for row in every)
    share = sum(row[by] for row in shown) / whole if whole else 1.0
    note = f"{len(shown)} of {len(every)} {kind}, with {Column.of('_share').show(share)} of the {what} of all of these."
    return finish(figure, [report], f"{kind} by {what}", [note])


def _draw_panel(axis: Any, shown: LayerTable, panel: _Bars) -> None:
    totals = [_add_up(row, panel) for row in shown]
    column = Column.of(panel[0])
    factor, unit = unit_for(max((total or 0.0 for total in totals), default=0.0), column.unit, column.scale)
    left = [0.0] * len(shown)
    for index, name in enumerate(panel):
        widths = [(row[name] or 0.0) / factor for row in shown]
        word = Column.of(name.removeprefix("own_")).title.partition(" ")[0] if len(panel) > 1 else None
        bars = axis.barh(range(len(shown)), widths, left=left, color=COLOURS[index], height=0.72, label=word)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.bar_label(bars, [column.show(total) or "-" for total in totals], padding=3, fontsize="x-small")
    title = _describe_panel(panel)
    axis.set_xlabel(title_axis(f"{title[:1].upper()}{title[1:]}", unit), fontsize="small")
    axis.set_xlim(0, max(*left, 0.0, 1e-12) * 1.25)
    axis.tick_params(axis="x", labelsize="small")
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right"]].set_visible(False)
    if len(panel) > 1:
        legend_above(axis)


def _describe_panel(panel: _Bars) -> str:
    """Return what a panel shows, as part of a sentence: ``forward and backward time``."""
    words = Column.of(panel[0]).in_a_sentence
    return words if len(panel) == 1 else words.replace("forward", "forward and backward")
