"""Bars of the layers, or of the types of layers, with the largest values of a column; of two models, both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.arguments.checks import COLUMNS, DEPTH, FLAG, TOP
from profilerkit.render.values import Column
from profilerkit.results.comparison import Comparison
from profilerkit.trace.layer_paths import find_deepest
from profilerkit.trace.layer_table import is_innermost
from profilerkit.trace.records import LayerTable

from .canvas import (
    COLOURS,
    explain_column,
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

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["column_of_both", "draw_pairs", "layer_bars"]

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
        """Return what the bars are, as part of a sentence: ``forward and backward time``."""
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
    rows = layers.by_type(depth) if types else layers
    columns = [by] if isinstance(by, str) else by or _choose_columns(rows)
    for name in columns:
        require_column(report, rows, name)
    ranked = _rank(rows, columns[0], None if types else depth)
    if not len(ranked):
        raise ValueError(f"no layer of {report.name} lies at depth {depth}; give another depth, or None")
    return _draw(report, ranked, _group_columns(columns), top, types)


def _choose_columns(layers: LayerTable) -> Sequence[str]:
    """Return the time of the layers themselves, which types have without the word "own"; their MACs without times."""
    start = "own_" if "own_forward_seconds" in layers[0] else ""
    times = (f"{start}forward_seconds", f"{start}backward_seconds")
    return [name for name in times if name in layers[0]] or ["macs"]


def _rank(rows: LayerTable, by: str, depth: int | None) -> LayerTable:
    """Return layers or types, the largest first; by an own column without layers that do nothing themselves."""
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
    axes[0].set_yticks(range(len(shown)), [plain(name) for name in names], fontsize="small")
    axes[0].set_ylim(len(shown) - 0.4, -0.6)
    kind = "types of layers" if types else "layers"
    by = panels[0].columns[0]
    notes = [_write_share(ranked, shown, by, kind), *explain_column([report], by)]
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
    title = panel.describe()
    axis.set_xlabel(title_axis(f"{title[:1].upper()}{title[1:]}", unit), fontsize="small")
    axis.set_xlim(0, max(*ends, 0.0, 1e-12) * _BEYOND)
    axis.tick_params(axis="x", labelsize="small")
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right"]].set_visible(False)
    if len(panel.columns) > 1:
        legend_above(axis)


#: The largest bars of two models that differ by more do not share an axis.
_FAR = 5
#: Models that share a smaller part of their layers than this have bars of their own each.
_ALIKE = 0.5
#: How far the bars of both models lie above and below the middle of their layer's row.
_SHIFTS = (-0.2, 0.2)


class LayerPair(NamedTuple):
    """A layer of two models.

    Attributes:
        label: Its path; behind a slash its name in the other model, where it has another one there.
        reference: Its value in the reference; None where that lacks the layer or the value.
        other: Its value in the other model, likewise.
    """

    label: str
    reference: float | None
    other: float | None


def column_of_both(comparison: Comparison, by: str | Sequence[str] | None) -> str:
    """Return the column that is compared: the requested one, else forward time where both were timed, else MACs.

    Raises `ValueError` for several columns, and where one of the reports lacks the column.
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

    They are those at a depth of both models' tree; for None, and below zero, those that are innermost in one of both.
    """
    rows = comparison.layers()
    level = None if depth is None or depth < 0 else min(depth, find_deepest(rows))
    reference_rows, other_rows = ({row["path"]: row for row in require_layers(report)} for report in comparison.reports)
    pairs = []
    for row in rows:
        in_reference = None if row["change"] == "added" else reference_rows[row["path"]]
        in_other = None if row["other_path"] is None else other_rows[row["other_path"]]
        if level is None:
            is_drawn = any(side is not None and is_innermost(side, by) for side in (in_reference, in_other))
        else:
            is_drawn = row["depth"] == level
        if is_drawn:
            values = (None if side is None else side.get(by) for side in (in_reference, in_other))
            pairs.append(LayerPair(_label_pair(row), *values))
    return sorted(pairs, key=lambda pair: -max(pair.reference or 0, pair.other or 0))[:top]


def _label_pair(row: Mapping[str, Any]) -> str:
    label = label_layer(row)
    has_other_name = row["change"] != "added" and row["other_path"] not in (None, row["path"])
    return f"{label} / {row['other_path'].rpartition('.')[2]}" if has_other_name else label


def draw_pairs(comparison: Comparison, by: str, top: int, depth: int | None) -> Any:
    """Return the figure of two models: a row for each layer with a bar for each model, or a panel for each model.

    Raises `ValueError` if no layer lies at the depth.
    """
    draw = _draw_pairs if _is_alike(comparison) else _draw_each
    figure, note = draw(comparison, by, top, depth)
    names = " and ".join(plain(report.name, 24) for report in comparison.reports)
    notes = [note, *explain_column(comparison.reports, by)]
    return finish(figure, comparison.reports, f"layers by {Column.of(by).in_a_sentence} of {names}", notes)


def _is_alike(comparison: Comparison) -> bool:
    """Return whether two models share at least half of their layers, so that pairs say something."""
    changes = [row["change"] for row in comparison.layers()]
    return sum(change in ("same", "changed") for change in changes) >= _ALIKE * len(changes)


def _require_rows(rows: Sequence[object], comparison: Comparison, depth: int | None) -> None:
    if not rows:
        raise ValueError(f"no layer of {comparison.reference.name} lies at depth {depth}; give another depth, or None")


def _describe_distance(tables: Sequence[LayerTable], by: str) -> str:
    """Return the sentence that one axis would show the bars of one model alone; an empty text where it would not."""
    largest = [max((row[by] or 0.0 for row in table), default=0.0) for table in tables]
    return " They lie far apart: each has an axis of its own." if max(largest) > _FAR * min(largest) else ""


def _draw_pairs(comparison: Comparison, by: str, top: int, depth: int | None) -> tuple[Any, str]:
    """Return a figure with a row for each layer and a bar for each model, and what is to be said of it."""
    pairs, column = find_pairs(comparison, by, depth, top), Column.of(by)
    _require_rows(pairs, comparison, depth)
    figure = new_figure(8.5, 1.5 + 0.36 * len(pairs))
    axis = figure.subplots()
    both = [pair.reference for pair in pairs], [pair.other for pair in pairs]
    factor, unit = _choose_unit([*both[0], *both[1]], column)
    for report, values, shift, colour in zip(comparison.reports, both, _SHIFTS, COLOURS[:2], strict=True):
        heights = [position + shift for position in range(len(pairs))]
        _draw_bars(axis, heights, values, factor, column, height=0.38, color=colour, label=plain(report.name, 28))
    _finish_axis(axis, [pair.label for pair in pairs], column.title, unit)
    legend_above(axis)
    return figure, "A layer that one of the models lacks has one bar."


def _draw_each(comparison: Comparison, by: str, top: int, depth: int | None) -> tuple[Any, str]:
    """Return a figure with a panel for each model, which has the largest of its own layers, and what is to be said."""
    tables = [require_layers(report).top(top, by, depth) for report in comparison.reports]
    column, distance = Column.of(by), _describe_distance(tables, by)
    _require_rows([*tables[0], *tables[1]], comparison, depth)
    figure = new_figure(11.5, 1.5 + 0.26 * max(map(len, tables)))
    axes = figure.subplots(1, 2, sharex=not distance)
    for axis, table, report, colour in zip(axes, tables, comparison.reports, COLOURS[:2], strict=True):
        values: list[float | None] = [row[by] for row in table]
        on_axis = values if distance else [row[by] for one_table in tables for row in one_table]
        factor, unit = _choose_unit(on_axis, column)
        _draw_bars(axis, range(len(table)), values, factor, column, height=0.72, color=colour)
        axis.set_title(plain(report.name, 40), fontsize="medium", loc="left")
        _finish_axis(axis, [label_layer(row) for row in table], column.title, unit)
    return figure, f"The models share few layers: each has the largest of its own.{distance}"


def _choose_unit(values: Sequence[float | None], column: Column) -> tuple[float, str]:
    return unit_for(max((value or 0.0 for value in values), default=0.0), column.unit, column.scale)


def _draw_bars(
    axis: Any, heights: Sequence[float], values: Sequence[float | None], factor: float, column: Column, **look: Any
) -> None:
    """Draw a bar for each value at its height, with the value beside it; ``factor`` is the value of one unit."""
    bars = axis.barh(heights, [(value or 0) / factor for value in values], **look)
    texts = ["" if value is None else column.show(value) or "-" for value in values]
    axis.bar_label(bars, texts, padding=3, fontsize="x-small")


def _finish_axis(axis: Any, labels: Sequence[str], title: str, unit: str) -> None:
    axis.set_yticks(range(len(labels)), [plain(label) for label in labels], fontsize="small")
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlabel(title_axis(f"{title[:1].upper()}{title[1:]}", unit), fontsize="small")
    axis.margins(x=0.18)
    axis.set_xlim(left=0)
    axis.tick_params(axis="x", labelsize="small")
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right"]].set_visible(False)
