"""A report or comparison as a console table, through rich."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..measurement import Measurement, Ratio
from ..quantity import PREFIXES, Scale, format_number, scale_value
from ..randomness import untouched_random
from ..status import Comparative, Completeness
from ..trace import LayerTable
from .operator_tables import operator_tables
from .time_tables import environment_tables, measurement_table, sweep_tables

if TYPE_CHECKING:
    from ..report import Comparison, Report, StatusRecord

__all__ = ["comparison_table", "layer_table", "render", "report_table", "to_text"]

NARROWEST, WIDEST = 80, 160
LONGEST_NAME = 36


def to_text(renderable: RenderableType, width: int | None = None) -> str:
    """Return what a renderable looks like without colours, at the terminal's width or the given one."""
    columns = width or min(max(shutil.get_terminal_size((100, 24)).columns, NARROWEST), WIDEST)
    target = io.StringIO()
    console = Console(file=target, width=columns, color_system=None, force_terminal=False, legacy_windows=False)
    with untouched_random():
        console.print(renderable)
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines()).strip("\n")


def render(result: Report | Comparison, details: bool = False) -> str:
    """Return a report or comparison as text; ``details`` adds descriptions and the layers."""
    from ..report import Comparison

    draw = comparison_table if isinstance(result, Comparison) else report_table
    return to_text(draw(result, details))  # type: ignore[arg-type]


def report_table(report: Report, details: bool = False) -> RenderableType:
    """Return the table of one model: metric, value and completeness; ``details`` adds descriptions and layers."""
    table = _table(f"{report.name}  ({report.backend})")
    table.add_column("Metric", overflow="fold", max_width=LONGEST_NAME)
    table.add_column("Value", justify="right", no_wrap=True)
    table.add_column("Unit", no_wrap=True)
    table.add_column("Completeness")
    for record in report.statuses.values():
        value, unit = _value_and_unit(record)
        table.add_row(escape(record.friendly_name), value, escape(unit), record.completeness.value)
    notes = [_sentence(note) for note in _notes(report)]
    parts: list[RenderableType] = [table if report.statuses else Text(f"\n{report.name}  ({report.backend})", "bold")]
    parts.append(_footer([*notes, *_batch(report)]))
    for record in report.statuses.values():
        if isinstance(record.value, LayerTable):
            parts.append(measured_table(record.friendly_name, record.value))
    parts += sweep_tables([report])
    parts += operator_tables([report])
    if (
        report.layers is not None
        and not details
        and any(isinstance(v, (LayerTable, str)) for v in report.data.values())
    ):
        parts.append(layer_table(report.layers))
    if details:
        parts.append(_descriptions(report.statuses.values()))
        parts += filter(None, [measurement_table(report.statuses.values())])
        parts += environment_tables([report])
        if report.layers is not None:
            parts.append(layer_table(report.layers))
    return Group(*parts)


def comparison_table(comparison: Comparison, details: bool = False) -> RenderableType:
    """Return the models side by side, with the enhancement of each over the first."""
    reports = [comparison.reference, *comparison.others]
    table = _table("Comparison")
    table.add_column("Metric", overflow="fold", max_width=LONGEST_NAME)
    for report in reports:
        title = f"{escape(report.name)}\n({escape(report.backend)})"
        table.add_column(title, justify="right", no_wrap=True, overflow="fold")
    for report in comparison.others:
        several = f"\n{escape(report.name)}" if len(comparison.others) > 1 else ""
        table.add_column(f"Enhancement{several}", justify="right", no_wrap=True)
    firsts = []
    for key in comparison.keys:
        records = [report.statuses.get(key) for report in reports]
        first = next(record for record in records if record is not None)
        row = [escape(first.friendly_name), *map(_cell, records)]
        row += [_enhancement(comparison, key, place) for place in range(len(comparison.others))]
        table.add_row(*row)
        firsts.append(first)
    notes = _notes_of_all(reports)
    alike = len({report.batch_size for report in reports}) == 1
    notes += dict.fromkeys(note for report in reports for note in _batch(report, named=not alike))
    if not alike:
        notes.append("The columns are not for the same batch size; what grows with the batch does not compare.")
    parts: list[RenderableType] = [table, _footer([*notes, *_legend(comparison)]), *sweep_tables(reports)]
    if details:
        parts.append(_descriptions(firsts))
        parts += filter(None, [measurement_table(report.statuses.values(), report.name) for report in reports])
        parts += environment_tables(reports)
        parts += [layer_table(report.layers, report.name) for report in reports if report.layers is not None]
    return Group(*parts)


def layer_table(layers: LayerTable, name: str = "") -> RenderableType:
    """Return the per-layer table: paths indented by depth, counts with the layers inside included."""
    table = _table(f"Layers of {escape(name)}" if name else "Layers")
    table.add_column("Layer")
    table.add_column("Type")
    table.add_column("Output shape")
    for title in ("Calls", "Params", "MACs", "FLOPs"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in layers:
        label = "  " * row["depth"] + (row["path"].rpartition(".")[2] or "(model)")
        shapes = ", ".join(str(list(shape)) for shape in row["output_shapes"])
        counts = [_count(row[column]) for column in ("params", "macs", "flops")]
        called = str(row["calls"]) if row["calls"] else "-"
        table.add_row(escape(label), escape(row["type"]), escape(shapes), called, *counts)
    return table


def measured_table(title: str, layers: LayerTable) -> RenderableType:
    """Return a per-layer table of measured seconds: a column for each of its own, and what rows leave out."""
    table = _table(title)
    table.add_column("Layer")
    table.add_column("Type")
    table.add_column("Calls", justify="right", no_wrap=True)
    columns = [name for name in (layers[0] if layers else {}) if name.endswith("_seconds")]
    for name in columns:
        heading = name.removesuffix("_seconds").replace("_", " ").capitalize()
        table.add_column(heading, justify="right", no_wrap=True)
    missing = any(row.get("missing") for row in layers)
    if missing:
        table.add_column("Left out")
    for row in layers:
        label = "  " * row["depth"] + (row["path"].rpartition(".")[2] or "(model)")
        cells = ["-" if row[name] is None else str(scale_value(row[name], "s", Scale.TIME)) for name in columns]
        further = [escape(row["missing"])] if missing else []
        table.add_row(escape(label), escape(row["type"]), str(row["calls"]), *cells, *further)
    return table


def _descriptions(records: Iterable[StatusRecord]) -> RenderableType:
    grid = Table(
        box=None, show_header=False, pad_edge=False, title=Text("\nMetrics", style="bold"), title_justify="left"
    )
    grid.add_column(no_wrap=True)
    grid.add_column()
    for record in records:
        grid.add_row(escape(record.friendly_name), escape(record.description))
    return grid


def _table(title: str) -> Table:
    return Table(title=Text(f"\n{title}", style="bold"), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)


def _count(value: int) -> str:
    return str(scale_value(value, scale=Scale.SI)) if value else "-"


def _value_and_unit(record: StatusRecord) -> tuple[str, str]:
    if record.value is None:
        return "-", ""
    bound = "≥ " if record.completeness is Completeness.PARTIAL else ""
    shown = record.shown
    if record.unit in ("", *PREFIXES) or f" {record.unit}" not in shown:
        return escape(bound + shown), ""  # a bare count keeps its prefix: 51.9 k
    number, _, interval = shown.rpartition(f" {record.unit}")
    return escape(f"{bound}{number}{interval}"), record.unit


def _cell(record: StatusRecord | None) -> str:
    if record is None:
        return "not measured"
    if record.value is None:
        return record.completeness.value
    # A measurement's interval is left out: the one of the ratio stands beside it.
    shown = record.shown.partition(" [")[0] if isinstance(record.value, Measurement) else record.shown
    return escape(f"{'≥ ' if record.completeness is Completeness.PARTIAL else ''}{shown}")


def _enhancement(comparison: Comparison, key: str, place: int) -> str:
    value = comparison.enhancement(key, place)
    if value is None or math.isnan(value):
        return "-"
    reference, other = (report.status(key) for report in (comparison.reference, comparison.others[place]))
    bound = _bound(reference, other)
    if reference.comparative is Comparative.DIFF:
        sign = "+" if value >= 0 else "-"
        unit = "pp" if reference.unit == "%" else reference.unit  # percentage points: the difference is not relative
        return escape(f"{bound}{sign}{format_number(abs(value))} {unit}".rstrip())
    text = f"{bound}{format_number(value)}x"
    if isinstance(reference.value, Measurement) and isinstance(other.value, Measurement):
        ratio = Ratio.of(reference.value, other.value)
        bounds = sorted(
            filter(None, (reference.comparative.enhancement(1.0, bound) for bound in (ratio.low, ratio.high)))
        )
        text = f"{text} [{', '.join(map(format_number, bounds))}]" if ratio.is_real else f"≈ {text}"
    return escape(text)


def _bound(reference: StatusRecord, other: StatusRecord) -> str:
    """Say which side of the truth an enhancement lies on where a value is a lower bound."""
    partial = [record.completeness is Completeness.PARTIAL for record in (reference, other)]
    if not any(partial):
        return ""
    if all(partial):
        return "~ "
    lower_is_better = reference.comparative is Comparative.RECIPROCAL
    return "≤ " if partial[1] == lower_is_better else "≥ "


def _notes_of_all(reports: Sequence[Report]) -> list[str]:
    """Return what is said of all reports once, and what is said of some with their names."""
    said = [list(_notes(report)) for report in reports]
    common = [note for note in said[0] if all(note in others for others in said)]
    named = [
        f"{report.name}: {note}"
        for report, own in zip(reports, said, strict=True)
        for note in own
        if note not in common
    ]
    return [*map(_sentence, common), *named]


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}"


def _notes(report: Report) -> Iterable[str]:
    alike: dict[tuple[str, str], list[str]] = {}
    for record in report.statuses.values():
        if record.completeness is Completeness.PARTIAL:
            said = "lower bound", ", ".join(record.missing)
        elif record.completeness is not Completeness.COMPLETE:
            said = record.completeness.value, "; ".join(record.missing)
        else:
            continue
        alike.setdefault(said, []).append(record.friendly_name)
    for (state, reason), names in alike.items():
        if state == "lower bound":
            state = "is a lower bound; not counted" if len(names) == 1 else "are lower bounds; not counted"
        yield f"{', '.join(names)} {state}: {reason}"
    yield from report.notes


def _batch(report: Report, named: bool = False) -> Iterable[str]:
    if report.batch_size is not None:
        yield f"{f'{report.name}: ' if named else ''}Values are for one forward pass of a batch of {report.batch_size}."


def _legend(comparison: Comparison) -> Iterable[str]:
    times = [record for record in comparison.reference.statuses.values() if isinstance(record.value, Measurement)]
    if not times:
        return
    key, first = times[0].key, times[0].value
    others = [other.statuses[key].value for other in comparison.others if key in other.statuses]
    paired = all(first.taken_with(value) for value in others if isinstance(value, Measurement))
    how = "measured in turn" if paired else "measured one after the other"
    confidence = f"{100 * first.confidence:.4g} %"
    yield f"Times are medians, {how}; brackets hold the {confidence} confidence interval of the ratio."
    if any("≈" in _enhancement(comparison, key, place) for place in range(len(comparison.others))):
        yield "≈ marks a ratio whose interval holds 1: no real difference was found."


def _footer(notes: Iterable[str]) -> Text:
    return Text("\n".join(notes), style="dim")
