"""Bars of the layers of two models: a row for each layer of both, with a bar for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from profilerkit.render.values import Column, write_row_value
from profilerkit.results.comparison import Comparison
from profilerkit.trace.layer_paths import find_deepest
from profilerkit.trace.layer_table import is_innermost

from ..page_pairs import read_pair
from .canvas import COLOURS, finish, legend_above, name_bars, new_figure, plain, title_bars, unit_for
from .reading import explain_column, label_layer, require_column, require_layers

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
    """Return layers with the largest values in either model, the largest first.

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
    return _choose_largest(pairs, top)


def _choose_largest(pairs: Sequence[LayerPair], top: int) -> list[LayerPair]:
    """Return the largest pairs, the largest first: some by each model, as all layers of one may be far smaller."""
    largest = sorted(pairs, key=lambda pair: -max(pair.reference.value or 0, pair.other.value or 0))
    by_reference = sorted(largest, key=lambda pair: -(pair.reference.value or 0))
    by_other = sorted(largest, key=lambda pair: -(pair.other.value or 0))
    in_turn = map(id, chain.from_iterable(zip(largest, by_reference, by_other, strict=True)))
    chosen = set(list(dict.fromkeys(in_turn))[:top])
    return [pair for pair in largest if id(pair) in chosen]


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
    """Return the figure of two models: a row for each layer with a bar for each model.

    Raises `ValueError` if no layer lies at the depth.
    """
    pairs = find_pairs(comparison, by, depth, top)
    if not pairs:
        raise ValueError(f"no layer of {comparison.reference.name} lies at depth {depth}; give another depth, or None")
    column, both = Column.of(by), ([pair.reference for pair in pairs], [pair.other for pair in pairs])
    largest = max(bar.value or 0.0 for bars in both for bar in bars)
    factor, unit = unit_for(largest, column.unit, column.scale)
    figure = new_figure(8.5, 1.5 + 0.36 * len(pairs))
    axis = figure.subplots()
    for report, bars, shift, colour in zip(comparison.reports, both, _SHIFTS, COLOURS[:2], strict=True):
        heights = [position + shift for position in range(len(pairs))]
        widths = [(bar.value or 0) / factor for bar in bars]
        drawn = axis.barh(heights, widths, height=0.38, color=colour, label=plain(report.name, 28))
        axis.bar_label(drawn, [bar.text for bar in bars], padding=3, fontsize="x-small")
    name_bars(axis, [pair.label for pair in pairs])
    title_bars(axis, column.title, unit)
    axis.margins(x=0.18)
    axis.set_xlim(left=0)
    legend_above(axis)
    names = " and ".join(plain(report.name, 24) for report in comparison.reports)
    notes = ["A layer that one of the models lacks has one bar.", *explain_column(comparison.reports, by)]
    return finish(figure, comparison.reports, f"layers by {column.in_a_sentence} of {names}", notes)
