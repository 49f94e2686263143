"""The notes below a table of values: why values are missing or partial, and for which batch they are.

The notes about times are in ``time_notes.py``, the note about the first row of a table in ``ranks.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ..piping.outcome import Completeness
from ..results.comparison import Comparison
from ..results.report import Report, StatusRecord
from ..times.measurement import Measurement
from ..trace.bounds import Bounds, Sign
from ..trace.records import LayerTable
from ..trace.table import Table
from .enhancements import differs_by_convention
from .grids import Notes, list_records
from .ranks import describe_first_row
from .time_notes import describe_gap, describe_origins, describe_ratios
from .values import KINDS

__all__ = [
    "describe_batch",
    "explain_incomplete",
    "make_comparison_notes",
    "make_notes",
]

#: The sentence about one value that is not exact, and the sentence about several, before the reason.
_SENTENCES = {
    "lower bound": ("is a lower bound; not counted", "are lower bounds; not counted"),
    "upper bound": ("is an upper bound", "are upper bounds"),
    "estimate": ("lies between two ends", "lie between two ends"),
    "partial": ("is partial", "are partial"),
    "estimate without ends": ("may be less or more", "may be less or more"),
}


def make_notes(report: Report, silent: Collection[str] = ()) -> Notes:
    """Return the notes of a report, which do not explain why the ``silent`` metrics have no value."""
    return Notes((*map(_capitalize, _list_notes(report, silent)), *describe_batch(report)))


def make_comparison_notes(comparison: Comparison, silent: Collection[str] = ()) -> Notes:
    """Return the notes of several reports, and notes about comparing them."""
    reports = comparison.reports
    notes = _merge_notes(reports, silent)
    batch_differs = len({report.batch_size for report in reports if _has_a_batch(report)}) > 1
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
        notes = (describe_first_row(record.value), describe_gap(record.value))
        yield from (f"{record.friendly_name}: {note}" for note in notes if note)
    yield from explain_incomplete([record for record in report.statuses.values() if record.key not in silent])
    yield from report.notes
    unshown = [key for key, value in report.data.items() if not isinstance(value, (LayerTable, str, type(None)))]
    if unshown:
        yield f"not shown here: {', '.join(unshown)}; report[...] has it, and --format json"
    if any(record.value.is_noisy for record in list_records(report, Measurement)):
        yield "noisy times: measure longer, such as max_seconds=30, while nothing else runs"


def explain_incomplete(records: Iterable[StatusRecord]) -> Iterator[str]:
    """Yield why values are partial or missing, once for all metrics that lack the same."""
    names_by_lack: dict[tuple[str, str], list[str]] = {}  # by the defect of a value, "lower bound", and its reason
    for record in records:
        if record.completeness is Completeness.COMPLETE:
            continue
        defect, reason = record.completeness.value, "; ".join(record.missing)
        if record.completeness is Completeness.PARTIAL:
            has_no_end = record.sign is Sign.BETWEEN and (record.ends or Bounds()) == Bounds()
            defect = f"{KINDS[record.sign]}{' without ends' if has_no_end else ''}"
            reason = ", ".join(record.missing)
        names_by_lack.setdefault((defect, reason), []).append(record.friendly_name)
    for (defect, reason), names in names_by_lack.items():
        of_one, of_several = _SENTENCES.get(defect, (defect, defect))
        yield f"{', '.join(names)} {of_one if len(names) == 1 else of_several}: {reason}"


def _has_a_batch(report: Report) -> bool:
    """Return whether values of a report are for a batch: a model that failed may have none, or no inputs yet."""
    return bool(report.inputs) and any(record.value is not None for record in report.statuses.values())


def describe_batch(report: Report, named: bool = False) -> Iterable[str]:
    """Yield for which batch the values are, if that has a size; with the name of the report if requested."""
    if report.batch_size is not None:
        name = f"{report.name}: " if named else ""
        yield f"{name}Values are for a batch of {report.batch_size:,}."
