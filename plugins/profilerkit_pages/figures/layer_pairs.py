"""The layers of two models as rows of bars: pairs where the models share layers, else the largest of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.render.columns import Column
from profilerkit.trace.depths import find_deepest
from profilerkit.trace.records import LayerTable

from .canvas import (
    COLOURS,
    finish,
    label_layer,
    legend_above,
    new_figure,
    plain,
    require_column,
    require_layers,
    title_axis,
    unit_for,
)

if TYPE_CHECKING:
    from profilerkit.results.comparison import Comparison
    from profilerkit.results.report import Report

__all__ = ["column_of_both", "draw_pairs"]

#: A layer in both models: its label, and its value in each; None where a model lacks it.
Pair = tuple[str, float | None, float | None]
#: The largest bars of two models that differ by more do not share an axis.
_FAR = 5
#: Models that share fewer of their layers than this have bars of their own each.
_ALIKE = 0.5


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


def is_alike(comparison: Comparison) -> bool:
    """Say whether two models share at least half of their layers, so that pairs say something."""
    changes = [row["change"] for row in comparison.layers()]
    return sum(change in ("same", "changed") for change in changes) >= _ALIKE * len(changes)


def find_pairs(comparison: Comparison, by: str, depth: int | None, top: int) -> list[Pair]:
    """Return the layers with the largest value in either model, the largest first."""
    mine, theirs = ({row["path"]: row for row in require_layers(report)} for report in comparison.reports)
    pairs = []
    rows = comparison.layers()
    innermost = depth is None or depth < 0
    level = None if depth is None else min(depth, find_deepest(rows))
    for row in rows:
        if not row["is_leaf"] if innermost else row["depth"] != level:
            continue
        first = None if row["change"] == "added" else mine[row["path"]].get(by)
        second = None if row["other_path"] is None else theirs[row["other_path"]].get(by)
        label = label_layer(row)
        if row["change"] != "added" and row["other_path"] not in (None, row["path"]):
            label = f"{label} / {row['other_path'].rpartition('.')[2]}"
        pairs.append((label, first, second))
    return sorted(pairs, key=lambda pair: -max(pair[1] or 0, pair[2] or 0))[:top]


def draw_pairs(comparison: Comparison, by: str, top: int, depth: int | None) -> Any:
    """Return the figure of two models: a row for each layer with a bar for each model, or a panel for each model.

    Raises `ValueError` if no layer lies at the depth.
    """
    alike = is_alike(comparison)
    column = Column.of(by)
    if alike:
        pairs = find_pairs(comparison, by, depth, top)
        rows, note = len(pairs), "A layer that one of the models lacks has one bar."
    else:
        tables = [require_layers(report).top(top, by, depth) for report in comparison.reports]
        rows, note = (
            max(map(len, tables)),
            f"The models share few layers: each has the largest of its own.{_apart(tables, by)}",
        )
    if not rows:
        raise ValueError(f"no layer of {comparison.reference.name} lies at depth {depth}; give another depth, or None")
    figure = new_figure(8.5 if alike else 11.5, 1.5 + (0.36 if alike else 0.26) * rows)
    if alike:
        _draw_rows(figure.subplots(), pairs, comparison.reports, column)
    else:
        _draw_panels(figure.subplots(1, 2, sharex=not _apart(tables, by)), tables, comparison.reports, column, by)
    names = " and ".join(plain(report.name, 24) for report in comparison.reports)
    return finish(figure, comparison.reports, f"layers by {column.in_a_sentence} of {names}", [note])


def _apart(tables: Sequence[LayerTable], by: str) -> str:
    """Say that one axis would show only the bars of one model, if so; an empty text if not."""
    largest = [max((row[by] or 0.0 for row in table), default=0.0) for table in tables]
    return " They lie far apart: each has an axis of its own." if max(largest) > _FAR * min(largest) else ""


def _draw_rows(axis: Any, pairs: Sequence[Pair], reports: Sequence[Report], column: Column) -> None:
    places = range(len(pairs))
    factor, unit = _choose_unit([value for pair in pairs for value in pair[1:]], column)
    for index, report in enumerate(reports):
        values = [pair[1:][index] for pair in pairs]
        at = [position + (-0.2, 0.2)[index] for position in places]
        bars = axis.barh(
            at, [(value or 0) / factor for value in values], 0.38, color=COLOURS[index], label=plain(report.name, 28)
        )
        axis.bar_label(bars, [_show(value, column) for value in values], padding=3, fontsize="x-small")
    _finish(axis, [pair[0] for pair in pairs], column.title, unit)
    legend_above(axis)


def _draw_panels(
    axes: Sequence[Any], tables: Sequence[LayerTable], reports: Sequence[Report], column: Column, by: str
) -> None:
    shared = None if _apart(tables, by) else [row[by] for table in tables for row in table]
    for index, (axis, table, report) in enumerate(zip(axes, tables, reports, strict=True)):
        values: list[float | None] = [row[by] for row in table]
        factor, unit = _choose_unit(shared or values, column)
        bars = axis.barh(range(len(table)), [(value or 0) / factor for value in values], 0.72, color=COLOURS[index])
        axis.bar_label(bars, [_show(value, column) for value in values], padding=3, fontsize="x-small")
        axis.set_title(plain(report.name, 40), fontsize="medium", loc="left")
        _finish(axis, [label_layer(row) for row in table], column.title, unit)


def _choose_unit(values: Sequence[float | None], column: Column) -> tuple[float, str]:
    return unit_for(max((value or 0.0 for value in values), default=0.0), column.unit, column.scale)


def _show(value: float | None, column: Column) -> str:
    return "" if value is None else column.show(value) or "-"


def _finish(axis: Any, labels: Sequence[str], title: str, unit: str) -> None:
    axis.set_yticks(range(len(labels)), [plain(label) for label in labels], fontsize="small")
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlabel(title_axis(f"{title[:1].upper()}{title[1:]}", unit), fontsize="small")
    axis.margins(x=0.18)
    axis.set_xlim(left=0)
    axis.tick_params(axis="x", labelsize="small")
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right"]].set_visible(False)
