"""The notes below a table of values: why values are missing or partial, for which batch they are, what ranks first.

The notes about compared times are in ``time_notes.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..count_text import format_count
from ..piping.outcome import Completeness
from ..results.comparison import Comparison
from ..results.report import Report, StatusRecord
from ..times.layer_times import LayerTimeTable
from ..times.measurement import Measurement
from ..times.wording import format_noise
from ..trace.layer_table import is_by_layer
from ..trace.records import LayerTable
from ..trace.table import Table
from .enhancements import differs_by_convention
from .grids import Notes, list_records
from .ranks import SUPERLATIVES, Ranked, rank_rows
from .time_notes import describe_origins, describe_ratios
from .values import KINDS, Column, share_text, write_row_value

__all__ = [
    "describe_batch",
    "explain_incomplete",
    "make_comparison_notes",
    "make_notes",
    "top_row_note",
]

#: The sentence about one value that is not exact, and the sentence about several, before the reason.
_SENTENCES = {
    "lower bound": ("is a lower bound; not counted", "are lower bounds; not counted"),
    "upper bound": ("is an upper bound", "are upper bounds"),
    "estimate": ("lies between two ends", "lie between two ends"),
}


def make_notes(report: Report, silent: Collection[str] = ()) -> Notes:
    """Return the notes of a report, which do not explain why the ``silent`` metrics have no value."""
    return Notes((*map(_capitalize, _list_notes(report, silent)), *describe_batch(report)))


def make_comparison_notes(comparison: Comparison, silent: Collection[str] = ()) -> Notes:
    """Return the notes of several reports, and notes about comparing them."""
    reports = comparison.reports
    notes = _merge_notes(reports, silent)
    batch_differs = len({report.batch_size for report in reports}) > 1
    notes += dict.fromkeys(note for report in reports for note in describe_batch(report, named=batch_differs))
    if batch_differs:
        notes.append("The columns are not for the same batch size; what grows with the batch does not compare.")
    others = range(len(comparison.others))
    if any(differs_by_convention(comparison, key, index) for key in comparison for index in others):
        notes.append(
            "Between frameworks less than 2 % is neither better nor worse: what they count as parameters differs."
        )
    if len({report.conditions for report in reports}) > 1:  # the notes above name the conditions of each report
        notes.append(
            "The reports were made under different conditions, named above, which make a difference of their own."
        )
    return Notes((*notes, *describe_origins(reports), *describe_ratios(comparison)))


def _merge_notes(reports: Sequence[Report], silent: Collection[str]) -> list[str]:
    """Return the notes of all reports, each once: first notes in every report, then others with the reports' names."""
    names_by_note: dict[str, list[str]] = {}
    for report in reports:
        for note in dict.fromkeys(_list_notes(report, silent)):
            names_by_note.setdefault(note, []).append(report.name)
    common, others = [], []
    for note, names in names_by_note.items():
        if len(names) == len(reports):
            common.append(_capitalize(note))
        else:
            others.append(f"{', '.join(names)}: {note}")
    return common + others


def _capitalize(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}"


def _list_notes(report: Report, silent: Collection[str]) -> Iterator[str]:
    if not report.statuses and not report.data:
        yield "no metric was computed: this profiler has none; profile() and compare() have the usual ones for a model"
    for record in list_records(report, Table):
        notes = (top_row_note(record.value), _describe_gap(record.value))
        yield from (f"{record.friendly_name}: {note}" for note in notes if note)
    yield from explain_incomplete([record for record in report.statuses.values() if record.key not in silent])
    yield from report.notes
    unshown = [key for key, value in report.data.items() if not isinstance(value, (LayerTable, str))]
    if unshown:
        yield f"not shown here: {', '.join(unshown)}; report[...] has it, and --format json"
    if any(record.value.is_noisy for record in list_records(report, Measurement)):
        yield "noisy times: measure longer, such as max_seconds=30, while nothing else runs"


class _Lack(NamedTuple):
    """The defect of a value, "lower bound" or "failed", and the reason."""

    state: str
    reason: str


def explain_incomplete(records: Iterable[StatusRecord]) -> Iterator[str]:
    """Yield why values are partial or missing, once for all metrics that lack the same."""
    names_by_lack: dict[_Lack, list[str]] = {}
    for record in records:
        if record.completeness is Completeness.COMPLETE:
            continue
        if record.completeness is Completeness.PARTIAL:
            lack = _Lack(KINDS[record.sign], ", ".join(record.missing))
        else:
            lack = _Lack(record.completeness.value, "; ".join(record.missing))
        names_by_lack.setdefault(lack, []).append(record.friendly_name)
    for lack, names in names_by_lack.items():
        of_one, of_several = _SENTENCES.get(lack.state, (lack.state, lack.state))
        yield f"{', '.join(names)} {of_one if len(names) == 1 else of_several}: {lack.reason}"


def describe_batch(report: Report, named: bool = False) -> Iterable[str]:
    """Yield for which batch the values are, if that has a size; with the name of the report if requested."""
    if report.batch_size is not None:
        name = f"{report.name}: " if named else ""
        yield f"{name}Values are for a batch of {report.batch_size:,}."


# Rows of tables -------------------------------------------------------------------------------------------------------

#: The times of layers may add up to the model's time but for this part of it; more is told.
_GAP = 0.1
#: The noise of the slowest layer is told beside its time if it is larger: then another layer may be the slowest.
_MUCH_NOISE = 0.2
#: The columns that can name a row; the first that it has does.
_LABELS = ("path", "operator", "layer", "kernel", "type")


def top_row_note(table: Table) -> str:
    """Return the first entry of a ranked table in words: "the slowest of 217 layers is conv1 (Conv2d), 3.1 ms".

    The slowest layer is the layer with the most own forward time, as in every ranking. If the table has backward times,
    the layer with the most own backward time is named too.
    """
    ranked = rank_rows(table)
    if not _has_top_value(ranked):
        return ""
    rows = format_count(len(table), "layer" if "path" in ranked.rows[0] else "row")
    first = f"the {SUPERLATIVES[ranked.by]} of {rows} is {_write_top_row(table, ranked)}"
    if "forward" not in ranked.by:
        return first
    backward = rank_rows(table, ranked.by.replace("forward", "backward"))
    if not _has_top_value(backward):
        return first
    return f"{first} of its own forward; backward it is {_write_top_row(table, backward)}"


def _has_top_value(ranked: Ranked) -> bool:
    """Return whether the rows are ranked at all, and the first of them has something to show."""
    return bool(ranked.by and ranked.rows[0][ranked.by])


def _describe_gap(table: Table) -> str:
    """Say which part of the model's time the own times of its layers add up to, if that is far from all of it.

    Each is the median of its own samples, so that they never add up exactly; a large gap comes from noise.
    """
    whole = next((row.get("forward_seconds") for row in table if row.get("path") == ""), None)
    timed = [row for row in table if row.get("calls") != 0]  # the time of others is in the layers around them
    if not is_by_layer(table) or not whole or any(row.get("own_forward_seconds") is None for row in timed):
        return ""
    share = sum(row.get("own_forward_seconds") or 0.0 for row in table) / whole
    if abs(share - 1) < _GAP:
        return ""
    return (
        f"noisy: the own times of layers, a median each, add up to {share_text(share)} of the model's; measure longer"
    )


def _write_top_row(table: Table, ranked: Ranked) -> str:
    """Return the first of ranked rows with its value, and the share of the whole model if it is known."""
    row, by = ranked.rows[0], ranked.by
    label = next((str(row[name]) for name in _LABELS if row.get(name)), "the model itself")
    layer = f" in {row['layer']}" if "operator" in row and row.get("layer") else ""
    kind = f" ({row['type']})" if row.get("path") and row.get("type") else ""
    sign, number = write_row_value(row, by)
    value = f"{sign}{Column.of(by).show(number)}{_write_large_noise(table, row, by)}"
    return f"{label}{layer}{kind}, {value}{'' if sign else _write_share(table, row, by)}"


def _write_large_noise(table: Table, row: Mapping[str, Any], by: str) -> str:
    """Return how far the time of a layer may be off, if that is much."""
    if not isinstance(table, LayerTimeTable):
        return ""
    noise = table.measurement(row["path"], by).noise
    return f" {format_noise(noise, digits=0)}" if noise > _MUCH_NOISE else ""


def _write_share(table: Table, row: Mapping[str, Any], by: str) -> str:
    """Return which part of the whole model's value is a layer's own."""
    root = next((candidate for candidate in table if candidate.get("path") == ""), {})
    whole = root.get(by.removeprefix("own_"))
    return f" ({share_text(row[by] / whole)})" if by.startswith("own_") and whole else ""
