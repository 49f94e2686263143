"""The notes of reports: why values are missing or partial, what stands out in tables, and for which batch they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..piping.outcome import Completeness
from ..times.measurement import Measurement
from ..trace.table import Table
from .bounds import KINDS, in_words
from .enhancements import differs_by_convention
from .grids import Notes, list_records
from .origins import different_origins
from .table_notes import describe_gap, top_row_note
from .time_notes import describe_ratios

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report, StatusRecord

__all__ = ["describe_batch", "make_comparison_notes", "make_notes"]


def make_notes(report: Report, silent: Collection[str] = ()) -> Notes:
    """Return the notes of a report, which do not explain why the ``silent`` metrics have no value."""
    return Notes((*map(_capitalize, _list_notes(report, silent)), *describe_batch(report)))


def make_comparison_notes(comparison: Comparison, silent: Collection[str] = ()) -> Notes:
    """Return the notes of several reports, and what one must know to compare them."""
    reports = comparison.reports
    notes = _merge_notes(reports, silent)
    batches = {report.batch_size for report in reports}
    notes += dict.fromkeys(note for report in reports for note in describe_batch(report, named=len(batches) > 1))
    if len(batches) > 1:
        notes.append("The columns are not for the same batch size; what grows with the batch does not compare.")
    if any(
        differs_by_convention(comparison, key, index) for key in comparison for index in range(len(comparison.others))
    ):
        notes.append(
            "Between frameworks less than 2 % is neither better nor worse: what they count as parameters differs."
        )
    if len({report.conditions for report in reports}) > 1:  # the notes above name those of each report
        notes.append(
            "The reports were made under different conditions, named above, which make a difference of their own."
        )
    return Notes((*notes, *different_origins(reports), *describe_ratios(comparison)))


def _merge_notes(reports: Sequence[Report], silent: Collection[str]) -> list[str]:
    """Return the notes that all reports have once, and each other one once with the names of its reports."""
    names: dict[str, list[str]] = {}
    for report in reports:
        for note in dict.fromkeys(_list_notes(report, silent)):
            names.setdefault(note, []).append(report.name)
    common = [_capitalize(note) for note, having in names.items() if len(having) == len(reports)]
    return [*common, *(f"{', '.join(having)}: {note}" for note, having in names.items() if len(having) < len(reports))]


def _capitalize(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}"


def _list_notes(report: Report, silent: Collection[str]) -> Iterator[str]:
    if not report.statuses and not report.data:
        yield "no metric was computed: this profiler has none; profile() and compare() have the usual ones for a model"
    for record in list_records(report, Table):
        notes = (top_row_note(record.value), describe_gap(record.value))
        yield from (f"{record.friendly_name}: {note}" for note in notes if note)
    yield from _explain_incomplete([record for record in report.statuses.values() if record.key not in silent])
    yield from report.notes
    if any(record.value.is_noisy for record in list_records(report, Measurement)):
        yield "noisy times: measure longer, such as max_seconds=30, while nothing else runs"


class _Lack(NamedTuple):
    """What is wrong with a value, "lower bound" or "failed", and why."""

    state: str
    reason: str


def _explain_incomplete(records: Iterable[StatusRecord]) -> Iterator[str]:
    """Yield why values are partial or missing, once for all metrics that lack the same."""
    names_by_lack: dict[_Lack, list[str]] = {}
    for record in records:
        if record.completeness is Completeness.COMPLETE:
            continue
        lack = _Lack(record.completeness.value, "; ".join(record.missing))
        if record.completeness is Completeness.PARTIAL:
            lack = _Lack(KINDS[record.sign], ", ".join(record.missing))
        names_by_lack.setdefault(lack, []).append(record.friendly_name)
    for lack, names in names_by_lack.items():
        yield f"{', '.join(names)} {in_words(lack.state, len(names))}: {lack.reason}"


def describe_batch(report: Report, named: bool = False) -> Iterable[str]:
    """Yield for which batch the values are, if that has a size; with the name of the report if requested."""
    if report.batch_size is not None:
        yield f"{f'{report.name}: ' if named else ''}Values are for a batch of {report.batch_size}."
