"""The content of a report or comparison as grids of text and notes, independent of the output format.

Every renderer for people draws the same parts, so that all formats show the same. Nothing is escaped here: names come
from the model, and each format escapes its own special characters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..foreign_text import visible
from ..times.operator_times import COLUMNS
from ..trace.layer_paths import within_depth
from ..trace.layer_table import is_innermost
from ..trace.records import LayerTable
from ..trace.table import Table
from .changed_layers import measure_change
from .enhancements import write_enhancement
from .grids import Grid, Notes, Part, list_records
from .layer_grids import all_layers_grids, difference_grid, layer_grid
from .layer_time_grids import has_times, layer_time_grid
from .notes import make_comparison_notes, make_notes
from .table_grids import ROWS, operator_grid, table_grid
from .time_grids import environment_grids, measurement_grids, sweep_grids
from .values import choose_mark, split_value, write_compared_value

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report, StatusRecord

__all__ = ["Selection", "list_parts_below", "parts"]


@dataclass(frozen=True)
class Selection:
    """The parts that are shown beside the values of a result; `parts` explains the attributes."""

    details: bool = False
    depth: int | None = None
    top: int | None = None
    changes: bool = False

    @property
    def has_layers(self) -> bool:
        """Whether the layers are shown, and the metrics that are tables."""
        return self.details or self.changes or self.depth is not None or self.top is not None

    @property
    def has_whole_models(self) -> bool:
        """Whether the layers are shown in the order of the model, none left out but deeper ones."""
        return not self.changes and self.top is None

    def draw_layers(self, layers: LayerTable, with_seconds: bool) -> Grid:
        """Return the grid of the layers of one model.

        Without a depth, layers are ranked by their own MACs, so that no row repeats another row. At a requested depth,
        the MACs of a layer include the layers inside.
        """
        rows = LayerTable(within_depth(layers, self.depth))
        if self.top is None:
            return layer_grid(rows, with_seconds=with_seconds)
        if self.depth is None and "own_macs" in layers.columns:
            title = "Layers with the most MACs of their own"
            ranked = LayerTable(map(_leave_out_inside, rows)).top(self.top, "own_macs")
        else:
            title = "Layers with the most MACs"
            ranked = rows.top(self.top, "macs" if "macs" in layers.columns else None, self.depth)
        return layer_grid(ranked, title, nested=False, with_seconds=with_seconds)

    def draw_metric(self, title: str, table: Table) -> Grid:
        """Return the grid of a metric that is a table: ten rows unless another number is requested."""
        if isinstance(table, LayerTable) and has_times(table):
            return layer_time_grid(title, table, self.top or ROWS, self.depth)
        if table.columns == COLUMNS:
            return operator_grid(title, table, self.top or ROWS)
        return table_grid(title, table, self.top or ROWS, self.depth)

    def draw_pair(self, reference: Report, other: Report, sides: Table) -> Grid:
        """Return the grid of the layers of two models, which ``sides`` has side by side."""
        rows = self._select_pairs(within_depth(sides, self.depth))
        names = (reference.name, other.name)
        title = f"Layers of {' and '.join(names)}"
        if self.changes:
            verb = "may differ" if any(row["change"] == "unknown" for row in rows) else "differ"
            title = f"{'Layers that' if rows else 'No layers'} {verb} between {' and '.join(names)}"
        return difference_grid(rows, title, names, nested=self.has_whole_models)

    def _select_pairs(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the layers of two models to show; a few of them are layers beside each other, none inside another."""
        if self.changes:
            rows = [row for row in rows if row["change"] != "same"]
        if self.top is None:
            return rows
        if self.depth is None or self.depth < 0:
            rows = [row for row in rows if _is_innermost(row)]
        else:
            reached = min(self.depth, max((row["depth"] for row in rows), default=0))
            rows = [row for row in rows if row["depth"] == reached]
        return sorted(rows, key=measure_change, reverse=True)[: self.top]


def parts(
    result: Report | Comparison,
    details: bool = False,
    depth: int | None = None,
    top: int | None = None,
    changes: bool = False,
    explains_absent: bool = True,
) -> list[Part]:
    """Return the parts of a result, in order.

    Args:
        result: A report or a comparison.
        details: Describe each metric, and show the layers, and ten rows of each metric that is a table.
        depth: The depth of the deepest layers to show, -1 for any depth; the layers are shown if it is given.
        top: The number of layers to show, with the most MACs first, and of rows of each metric that is a table; the
            layers are shown if it is given.
        changes: In a comparison, show the layers that changed, were removed or added.
        explains_absent: Whether notes say why a metric has no value in any report; a page says it elsewhere.
    """
    from ..results.comparison import Comparison

    selection = Selection(details, depth, top, changes)
    silent: set[str] = set() if explains_absent else _find_absent(result.reports)
    if isinstance(result, Comparison):
        return list(_list_comparison_parts(result, selection, silent))
    return [_draw_values(result), *list_parts_below(result, selection, silent)]


def _find_absent(reports: Sequence[Report]) -> set[str]:
    """Return the metrics of reports that have a value in none of them."""
    records = [record for report in reports for record in report.statuses.values()]
    return {record.key for record in records} - {record.key for record in records if record.value is not None}


def _draw_values(report: Report) -> Grid:
    """Return the table of all metrics of a report."""
    titles = ("Metric", "Value", "Unit", "Completeness")
    value_column, completeness_column = titles.index("Value"), titles.index("Completeness")
    rows: list[tuple[str, ...]] = []
    marks: dict[tuple[int, int], str] = {}
    for record in report.statuses.values():
        mark = choose_mark(record)
        if mark:
            marks[len(rows), value_column] = mark
        if mark and mark != "noisy":  # a noisy value is complete
            marks[len(rows), completeness_column] = mark
        rows.append((record.friendly_name, *split_value(record), record.completeness.value))
    title = f"{report.name}  ({report.backend})"
    return Grid(title, titles, tuple(rows), frozenset({value_column}), kind="metrics", marks=marks)


def list_parts_below(report: Report, selection: Selection, silent: Collection[str] = ()) -> Iterator[Part]:
    """Yield the parts of a report below its values: first the notes, which do not explain ``silent`` metrics."""
    yield make_notes(report, silent)
    yield from sweep_grids([report])
    tables = list_records(report, Table)
    if selection.has_layers:
        for record in tables:
            yield selection.draw_metric(record.friendly_name, record.value)
    if selection.details:
        if report.statuses:
            yield _draw_descriptions(report.statuses.values())
        yield from measurement_grids([report])
        yield from environment_grids([report])
    yield from _list_layers(report, selection)
    unshown = [key for key, value in report.data.items() if not isinstance(value, (LayerTable, str))]
    if unshown:
        yield Notes((f"Not shown here: {', '.join(unshown)}; report[...] has it, and --format json.",))
    if tables and not selection.has_layers:
        yield Notes(("Tables: report.to_text(details=True), on the command line --layers or --top.",))


def _list_layers(report: Report, selection: Selection) -> Iterator[Grid]:
    """Yield the layers if they are selected; ten of them if a status key was requested that is about layers."""
    if report.layers is None:
        return
    if selection.has_layers:
        has_grid_of_times = any(has_times(record.value) for record in list_records(report, Table))
        yield selection.draw_layers(report.layerwise, with_seconds=not has_grid_of_times)
    elif any(isinstance(value, (LayerTable, str)) for value in report.data.values()):
        short = replace(selection, top=ROWS) if len(report.layers) > ROWS else selection
        yield short.draw_layers(report.layerwise, with_seconds=True)


def _list_comparison_parts(comparison: Comparison, selection: Selection, silent: Collection[str]) -> Iterator[Part]:
    reports = comparison.reports
    yield _draw_comparison(comparison)
    yield make_comparison_notes(comparison, silent)
    yield from sweep_grids(reports)
    if selection.details:
        yield _draw_descriptions(_find_first_record(key, reports) for key in comparison)
        yield from measurement_grids(reports)
        yield from environment_grids(reports)
    if not selection.has_layers:
        return
    if len(reports) > 2 and selection.has_whole_models and all(report.layers is not None for report in reports):
        yield from all_layers_grids(comparison, selection.depth)
        return
    for index, other in enumerate(comparison.others):
        if comparison.reference.layers is not None and other.layers is not None:
            yield selection.draw_pair(comparison.reference, other, comparison.layers(index))


def _draw_comparison(comparison: Comparison) -> Grid:
    """Return the table of all metrics of a comparison: the values of each model, and how far each other is better."""
    reports, others = comparison.reports, comparison.others
    titles = ["Metric", *(f"{visible(report.name)}\n({report.backend})" for report in reports)]
    titles += [f"Enhancement\n{visible(other.name)}" if len(others) > 1 else "Enhancement" for other in others]
    rows: list[tuple[str, ...]] = []
    marks: dict[tuple[int, int], str] = {}
    for number, key in enumerate(comparison):
        records = [report.statuses.get(key) for report in reports]
        enhancements = [write_enhancement(comparison, key, index) for index in range(len(others))]
        name = _find_first_record(key, reports).friendly_name
        rows.append((name, *map(write_compared_value, records), *(enhancement.text for enhancement in enhancements)))
        words = ["", *map(choose_mark, records), *(enhancement.verdict for enhancement in enhancements)]
        marks |= {(number, column): word for column, word in enumerate(words) if word}
    numeric = frozenset(range(1, len(titles)))
    return Grid("Comparison", tuple(titles), tuple(rows), numeric, kind="metrics", marks=marks)


def _find_first_record(key: str, reports: Iterable[Report]) -> StatusRecord:
    """Return the record of a metric in the first of the reports that has it."""
    return next(report.statuses[key] for report in reports if key in report.statuses)


def _draw_descriptions(records: Iterable[StatusRecord]) -> Grid:
    rows = tuple((record.friendly_name, record.description) for record in records)
    return Grid("Metrics", ("Metric", "Description"), rows, kind="descriptions")


# Layers that are shown ------------------------------------------------------------------------------------------------


def _leave_out_inside(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row of a layer with its own amounts, such as ``macs``, without the layers inside."""
    return {**row, **{name: row[f"own_{name}"] for name in row if f"own_{name}" in row}}


def _is_innermost(row: Mapping[str, Any]) -> bool:
    """Return whether a layer of two models is innermost by its MACs in one of them."""
    other = {name: row.get(f"other_{name}") for name in ("macs", "own_macs")}
    return is_innermost(row, "macs") or is_innermost({**other, "is_leaf": False}, "macs")
