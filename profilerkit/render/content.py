"""The content of a report or comparison as grids of text and notes, independent of the output format.

Every renderer for people draws the same parts, so that all formats show the same. Nothing is escaped here: names come
from the model, and each format escapes its own special characters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from ..foreign_text import visible
from ..results.comparison import Comparison
from ..results.report import Report, StatusRecord
from ..trace.records import LayerTable
from ..trace.table import Table
from .enhancements import write_enhancement
from .grids import Grid, Notes, Part, list_records
from .layer_grids import all_layers_grids
from .layer_time_grids import has_times
from .notes import make_comparison_notes, make_notes
from .selection import Selection
from .table_grids import ROWS
from .time_grids import environment_grids, measurement_grids, sweep_grids
from .values import choose_mark, split_value, write_compared_value

__all__ = ["list_parts_below", "parts"]


def parts(result: Report | Comparison, selection: Selection | None = None, explains_absent: bool = True) -> list[Part]:
    """Return the parts of a result, in order.

    Args:
        result: A report or a comparison.
        selection: The parts that are shown beside the values and notes.
        explains_absent: Whether notes say why a metric has no value in any report; a page says it elsewhere.
    """
    selection = selection or Selection()
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
    for number, record in enumerate(report.statuses.values()):
        rows.append((record.friendly_name, *split_value(record), record.completeness.value))
        mark = choose_mark(record)
        if mark:
            marks[number, value_column] = mark
        if mark and mark != "noisy":  # a noisy value is complete
            marks[number, completeness_column] = mark
    title = f"{report.name}  ({report.backend})"
    return Grid(title, titles, tuple(rows), frozenset({value_column}), kind="metrics", marks=marks)


def list_parts_below(report: Report, selection: Selection, silent: Collection[str] = ()) -> Iterator[Part]:
    """Yield the parts of a report below its values: first the notes, which do not explain ``silent`` metrics."""
    tables = list_records(report, Table)
    yield make_notes(report, silent)
    yield from sweep_grids([report])
    if selection.has_layers:
        yield from (selection.draw_metric(record.friendly_name, record.value) for record in tables)
    if selection.details:
        yield from _list_details([report], report.statuses.values())
    yield from _list_layers(report, selection)
    if tables and not selection.has_layers:
        yield Notes(("Tables: report.to_text(details=True), on the command line --layers or --top.",))


def _list_details(reports: Sequence[Report], records: Collection[StatusRecord]) -> Iterator[Grid]:
    """Yield the descriptions of metrics, all statistics of what was measured, and where it was measured."""
    if records:
        rows = tuple((record.friendly_name, record.description) for record in records)
        yield Grid("Metrics", ("Metric", "Description"), rows, kind="descriptions")
    yield from measurement_grids(reports)
    yield from environment_grids(reports)


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
        yield from _list_details(reports, [_find_first_record(key, reports) for key in comparison])
    if selection.has_layers:
        yield from _list_compared_layers(comparison, selection)
    if any(list_records(report, Table) for report in reports):
        yield Notes(("Tables are shown of one model: comparison.reports[0].to_text(details=True).",))


def _list_compared_layers(comparison: Comparison, selection: Selection) -> Iterator[Grid]:
    """Yield the layers of all models in one grid for each count; or a grid for each pair of models with layers."""
    reference, others = comparison.reference, comparison.others
    have_layers = all(report.layers is not None for report in comparison.reports)
    if len(others) > 1 and selection.has_whole_models and have_layers:
        yield from all_layers_grids(comparison, selection.depth)
        return
    for index, other in enumerate(others):
        if reference.layers is not None and other.layers is not None:
            yield selection.draw_pair(reference, other, comparison.layers(index))


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
        values = [*map(write_compared_value, records), *(enhancement.text for enhancement in enhancements)]
        rows.append((_find_first_record(key, reports).friendly_name, *values))
        marks_of_values = [*map(choose_mark, records), *(enhancement.verdict for enhancement in enhancements)]
        marks |= {(number, column): mark for column, mark in enumerate(marks_of_values, start=1) if mark}
    return Grid("Comparison", tuple(titles), tuple(rows), frozenset(range(1, len(titles))), kind="metrics", marks=marks)


def _find_first_record(key: str, reports: Iterable[Report]) -> StatusRecord:
    """Return the record of a metric in the first of the reports that has it."""
    return next(report.statuses[key] for report in reports if key in report.statuses)
