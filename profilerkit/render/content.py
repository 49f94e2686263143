"""The content of a report or comparison as grids of text and notes, independent of the output format.

Every renderer for people draws the same parts, so that all formats show the same. Nothing is escaped here: names come
from the model, and each format escapes its own special characters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..piping.outcome import Completeness
from ..piping.quantity import PREFIXES
from ..times.measurement import Measurement
from ..times.operator_times import COLUMNS
from ..trace.alignment import is_foreign
from ..trace.depths import within_depth
from ..trace.layer_table import is_innermost
from ..trace.layer_view import group_children
from ..trace.records import LayerTable
from ..trace.table import Table
from .bounds import KINDS, in_words, write_interval
from .enhancements import is_convention, write_enhancement
from .grids import Grid, Notes, Part, list_records, visible
from .layer_grids import all_layers_grids, difference_grid, layer_grid
from .layer_time_grids import has_times, layer_time_grid
from .origins import different_origins
from .table_grids import ROWS, operator_grid, table_grid
from .table_notes import describe_gap, top_row_note
from .time_grids import environment_grids, legend, measurement_grids, sweep_grids

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report, StatusRecord

__all__ = ["choose_mark", "describe_batch", "list_absent", "list_changed_layers", "list_parts_below", "parts"]


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
        depth: Show no layers that lie deeper, -1 for those at any depth; the layers are shown where it is given.
        top: Show only so many layers, those with the most MACs, and so many rows of each metric that is a table; the
            layers are shown where it is given.
        changes: Of a comparison, show those layers that changed, were removed or added.
        explains_absent: Whether notes say why a metric has no value in any report; a page says it elsewhere.
    """
    from ..results.comparison import Comparison

    silent = frozenset(() if explains_absent else list_absent(result.reports))
    if isinstance(result, Comparison):
        layers = _Layers(details or changes or depth is not None or top is not None, depth, top, changes)
        return list(_list_comparison_parts(result, details, layers, silent))
    return [_draw_values(result), *list_parts_below(result, details, depth, top, changes, silent)]


def list_absent(reports: Sequence[Report]) -> list[str]:
    """Return the metrics of reports that have a value in none of them."""
    with_value = {key for report in reports for key, record in report.statuses.items() if record.value is not None}
    return [key for key in dict.fromkeys(key for report in reports for key in report.statuses) if key not in with_value]


def list_changed_layers(comparison: Comparison, most: int) -> Iterator[Grid]:
    """Yield where the second of two models differs from the first: the outermost layers that do, at most so many.

    The layer whose MACs differ most is replaced by those inside it that differ, as long as there is room.
    """
    if len(comparison.others) > 1 or any(report.layers is None for report in comparison.reports):
        return
    rows = [row for row in comparison.layers(0) if row["change"] != "same" or not row["path"]]
    inside = group_children(rows)
    shown = list(inside.get("", ()))
    while True:
        room = most - len(shown) + 1
        fitting = [row for row in shown if 0 < len(inside.get(row["path"], ())) <= room]
        if not fitting:
            break
        index = shown.index(max(fitting, key=_measure_change))
        shown[index : index + 1] = inside[shown[index]["path"]]
    counted = [row for row in shown if any(_measure_change(row))] or shown  # others differ in FLOPs alone
    kept = sorted(counted, key=_measure_change, reverse=True)[:most]
    lacked = [row for row in kept if row["change"] in ("removed", "added")]
    if is_foreign(comparison.reference, comparison.others[0]) and 2 * len(lacked) > len(kept):
        return  # one is nested, the other is flat: most of these are the same layers
    if kept:
        names = (comparison.reference.name, comparison.others[0].name)
        ordered = [row for row in shown if row in kept]
        part = f", {len(kept)} of {len(counted)}" if len(kept) < len(counted) else ""
        yield difference_grid(ordered, f"Layers that differ between {' and '.join(names)}{part}", names, nested=False)


def _measure_change(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return by how many MACs and parameters a layer of two models differs."""
    macs, params = (abs((row[f"other_{key}"] or 0) - (row[key] or 0)) for key in ("macs", "params"))
    return macs, params


def _is_innermost(row: Mapping[str, Any]) -> bool:
    """Return whether a layer of two models is innermost by its MACs in one of them."""
    other = {name: row.get(f"other_{name}") for name in ("macs", "own_macs")}
    return is_innermost(row, "macs") or is_innermost({**other, "is_leaf": False}, "macs")


def _leave_out_inside(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row of a layer with its own amounts alone, without those of the layers inside of it."""
    return {**row, **{name: row[f"own_{name}"] for name in row if f"own_{name}" in row}}


@dataclass(frozen=True)
class _Layers:
    """Which layers are shown."""

    requested: bool
    depth: int | None
    top: int | None
    changes: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all of them are, in their order."""
        return not self.changes and self.top is None

    def draw(self, layers: LayerTable, with_seconds: bool) -> Grid:
        rows = within_depth(layers, self.depth)
        if self.top is None:
            return layer_grid(LayerTable(rows), with_seconds=with_seconds)
        if self.depth is not None or "own_macs" not in layers.columns:
            ranked = LayerTable(rows).top(self.top, "macs" if "macs" in layers.columns else None, self.depth)
            return layer_grid(ranked, "Layers with the most MACs", nested=False, with_seconds=with_seconds)
        alone = LayerTable(map(_leave_out_inside, rows)).top(self.top, "own_macs")
        return layer_grid(alone, "Layers with the most MACs of their own", nested=False, with_seconds=with_seconds)

    def draw_metric(self, title: str, table: Table) -> Grid:
        """Return the grid of a metric that is a table: ten rows unless another number is requested."""
        if isinstance(table, LayerTable) and has_times(table):
            return layer_time_grid(title, table, self.top or ROWS, self.depth)
        if table.columns == COLUMNS:
            return operator_grid(title, table, self.top or ROWS)
        return table_grid(title, table, self.top or ROWS, self.depth)

    def draw_pair(self, reference: Report, other: Report, sides: Table) -> Grid:
        rows = within_depth(sides, self.depth)
        title = f"Layers of {reference.name} and {other.name}"
        if self.changes:
            rows = [row for row in rows if row["change"] != "same"]
            title = f"{'Layers that' if rows else 'No layers'} differ between {reference.name} and {other.name}"
        if self.top is not None:
            at_depth = _is_innermost if self.depth is None else lambda row: row["depth"] == self.depth
            rows = sorted(filter(at_depth, rows), key=_measure_change, reverse=True)[: self.top]
        return difference_grid(rows, title, (reference.name, other.name), nested=self.is_whole)


def _draw_values(report: Report) -> Grid:
    """Return the table of all metrics of a report."""
    rows = tuple(
        (record.friendly_name, *_split_value(record), record.completeness.value) for record in report.statuses.values()
    )
    titles = ("Metric", "Value", "Unit", "Completeness")
    marks = dict[tuple[int, int], str]()
    for number, record in enumerate(report.statuses.values()):
        mark = choose_mark(record)
        columns = {"": (), "noisy": (1,)}.get(mark, (1, 3))  # a noisy value is complete
        marks |= dict.fromkeys([(number, column) for column in columns], mark)
    return Grid(f"{report.name}  ({report.backend})", titles, rows, frozenset({1}), kind="metrics", marks=marks)


def list_parts_below(
    report: Report, details: bool, depth: int | None, top: int | None, changes: bool, silent: Collection[str] = ()
) -> Iterator[Part]:
    """Yield the parts of a report below its values: first the notes, which do not explain ``silent`` metrics.

    The other arguments are those of `parts`.
    """
    layers = _Layers(details or changes or depth is not None or top is not None, depth, top)
    yield Notes((*map(_capitalize, _list_notes(report, silent)), *describe_batch(report)))
    requested = any(isinstance(value, (LayerTable, str)) for value in report.data.values())
    yield from sweep_grids([report])
    tables = list_records(report, Table)
    for record in tables if layers.requested else ():
        yield layers.draw_metric(record.friendly_name, record.value)
    if details:
        yield _draw_descriptions(report.statuses.values())
        yield from measurement_grids([report])
        yield from environment_grids([report])
    if report.layers is not None and (layers.requested or requested):
        short = layers.requested or len(report.layers) <= ROWS
        have_grid = layers.requested and any(has_times(record.value) for record in tables)
        yield (layers if short else replace(layers, top=ROWS)).draw(report.layerwise, with_seconds=not have_grid)
    if tables and not layers.requested:
        yield Notes(("Tables: report.to_text(details=True), on the command line --layers or --top.",))


def _list_comparison_parts(
    comparison: Comparison, details: bool, layers: _Layers, silent: Collection[str]
) -> Iterator[Part]:
    reports = comparison.reports
    several = len(comparison.others) > 1
    titles = ["Metric", *(f"{visible(report.name)}\n({report.backend})" for report in reports)]
    titles += [f"Enhancement\n{visible(report.name)}" if several else "Enhancement" for report in comparison.others]
    rows: list[tuple[str, ...]] = []
    firsts, marks = [], dict[tuple[int, int], str]()
    for key in comparison:
        records = [report.statuses.get(key) for report in reports]
        first = next(record for record in records if record is not None)
        firsts.append(first)
        enhancements = [write_enhancement(comparison, key, index) for index in range(len(comparison.others))]
        cells = (first.friendly_name, *map(_write_cell, records), *(enhancement.text for enhancement in enhancements))
        words = ("", *map(choose_mark, records), *(enhancement.verdict for enhancement in enhancements))
        marks |= {(len(rows), column): mark for column, mark in enumerate(words) if mark}
        rows.append(cells)
    numeric = frozenset(range(1, len(titles)))
    yield Grid("Comparison", tuple(titles), tuple(rows), numeric, kind="metrics", marks=marks)
    notes = _merge_notes(reports, silent)
    alike = len({report.batch_size for report in reports}) == 1
    notes += dict.fromkeys(note for report in reports for note in describe_batch(report, named=not alike))
    if not alike:
        notes.append("The columns are not for the same batch size; what grows with the batch does not compare.")
    if any(is_convention(comparison, key, index) for key in comparison for index in range(len(comparison.others))):
        notes.append(
            "Between frameworks less than 2 % is neither better nor worse: what they count as parameters differs."
        )
    yield Notes((*notes, *_describe_conditions(reports), *different_origins(reports), *legend(comparison)))
    yield from sweep_grids(reports)
    if details:
        yield _draw_descriptions(firsts)
        yield from measurement_grids(reports)
        yield from environment_grids(reports)
    if layers.requested and several and layers.is_whole and all(report.layers is not None for report in reports):
        yield from all_layers_grids(comparison, layers.depth)
        return
    for index, other in enumerate(comparison.others):
        if layers.requested and comparison.reference.layers is not None and other.layers is not None:
            yield layers.draw_pair(comparison.reference, other, comparison.layers(index))


def _draw_descriptions(records: Iterable[StatusRecord]) -> Grid:
    rows = tuple((record.friendly_name, record.description) for record in records)
    return Grid("Metrics", ("Metric", "Description"), rows, kind="descriptions")


def _split_value(record: StatusRecord) -> tuple[str, str]:
    """Return the text of a value without its unit, and the unit; a bare count keeps its prefix: "51.9 k"."""
    if record.value is None:
        return "-", ""
    text, unit, measured = record.shown, "", record.text_parts
    if record.unit not in ("", *PREFIXES) and f" {record.unit}" in text:
        unit = record.unit
        text = text.replace(f" {unit}", "", 1) if measured is None else measured.without_unit
    return f"{record.sign}{text}{write_interval(record)}", unit


def _write_cell(record: StatusRecord | None) -> str:
    """Return a value of a comparison; that of a measurement has no interval: that of the ratio stands beside it."""
    if record is None:
        return "not measured"
    if record.value is None:
        return record.completeness.value
    measured = record.text_parts
    text = record.shown if measured is None else measured.without_interval
    return f"{record.sign}{text}{write_interval(record)}"


def choose_mark(record: StatusRecord | None) -> str:
    """Return what is to be seen of a value at once: that it failed, is not all of it, or is not known well."""
    if record is None:
        return ""
    if record.completeness is not Completeness.COMPLETE:
        return "failed" if record.completeness is Completeness.FAILED else "partial"
    value = record.value
    if not isinstance(value, Measurement):
        return ""
    is_rough = value.is_range and len(value.samples) > 1  # one sample tells nothing of its noise
    return "noisy" if value.is_noisy or is_rough else ""


def _merge_notes(reports: Sequence[Report], silent: Collection[str]) -> list[str]:
    """Return the notes that all reports have once, and each other one once with the names of its reports."""
    names: dict[str, list[str]] = {}
    for report in reports:
        for note in dict.fromkeys(_list_notes(report, silent)):
            names.setdefault(note, []).append(report.name)
    common = [_capitalize(note) for note, having in names.items() if len(having) == len(reports)]
    return [*common, *(f"{', '.join(having)}: {note}" for note, having in names.items() if len(having) < len(reports))]


def _describe_conditions(reports: Sequence[Report]) -> Iterator[str]:
    """Say that reports were made under different conditions, as autocast around one of them, if they were.

    The notes before name the conditions of each.
    """
    if len({report.conditions for report in reports}) > 1:
        yield "The reports were made under different conditions, named above, which make a difference of their own."


def _capitalize(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}"


def _list_notes(report: Report, silent: Collection[str]) -> Iterable[str]:
    """Yield the notes of a report, but for why the ``silent`` metrics have no value."""
    if not report.statuses and not report.data:
        yield "no metric was computed: this profiler has none; profile() and compare() have the usual ones for a model"
    alike: dict[tuple[str, str], list[str]] = {}
    for record in report.statuses.values():
        if record.completeness is Completeness.PARTIAL:
            state_and_reason = KINDS[record.sign], ", ".join(record.missing)
        elif record.completeness is not Completeness.COMPLETE and record.key not in silent:
            state_and_reason = record.completeness.value, "; ".join(record.missing)
        else:
            continue
        alike.setdefault(state_and_reason, []).append(record.friendly_name)
    for record in list_records(report, Table):
        notes = (top_row_note(record.value), describe_gap(record.value))
        yield from (f"{record.friendly_name}: {note}" for note in notes if note)
    for (state, reason), names in alike.items():
        yield f"{', '.join(names)} {in_words(state, len(names))}: {reason}"
    yield from report.notes
    if any(record.value.is_noisy for record in list_records(report, Measurement)):
        yield "noisy times: measure longer, such as max_seconds=30, while nothing else runs"


def describe_batch(report: Report, named: bool = False) -> Iterable[str]:
    """Yield for which batch the values are, if that has a size; with the name of the report if requested."""
    if report.batch_size is not None:
        yield f"{f'{report.name}: ' if named else ''}Values are for a batch of {report.batch_size}."
