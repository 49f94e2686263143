"""The notes below a table of values: why values are missing or partial, what stands out, and what to know of times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..count_text import format_count
from ..piping.outcome import Completeness
from ..times.layer_times import LayerTimeTable
from ..times.measurement import Measurement
from ..times.ratio import Ratio
from ..times.wording import format_noise
from ..trace.table import Table
from .enhancements import differs_by_convention
from .grids import Notes, list_records
from .table_grids import SUPERLATIVES, Ranked, rank_rows
from .time_grids import list_timed
from .values import KINDS, Column, share_text

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report, StatusRecord

__all__ = ["describe_batch", "explain_incomplete", "make_comparison_notes", "make_notes", "top_row_note"]

#: What is said of one value that is no exact one, and of several, before the reason.
_SENTENCES = {
    "lower bound": ("is a lower bound; not counted", "are lower bounds; not counted"),
    "upper bound": ("is an upper bound", "are upper bounds"),
    "estimate": ("lies between two ends", "lie between two ends"),
}
#: The times of layers may add up to the model's time but for this part of it; more is told.
_GAP = 0.1
#: The noise of the slowest layer is told beside its time if it is larger: then another layer may be the slowest.
_MUCH_NOISE = 0.2
#: The columns that can name a row; the first that it has does.
_LABELS = ("path", "operator", "layer", "kernel", "type")
#: Facts of a report's environment that make two machines different ones. Versions of frameworks are told elsewhere.
_MACHINE = ("host", "cpu", "cores", "usable_cores", "memory_bytes", "os")
#: Facts that each framework states in its own words: only those of one framework are compared.
_BY_FRAMEWORK = ("device", "devices")
#: Times are of the same time if their reports were made within this.
_TOGETHER = timedelta(hours=1)


def make_notes(report: Report, silent: Collection[str] = ()) -> Notes:
    """Return the notes of a report, which do not explain why the ``silent`` metrics have no value."""
    return Notes((*map(_capitalize, _list_notes(report, silent)), *describe_batch(report)))


def make_comparison_notes(comparison: Comparison, silent: Collection[str] = ()) -> Notes:
    """Return the notes of several reports, and what one must know to compare them."""
    reports = comparison.reports
    notes = _merge_notes(reports, silent)
    batch_differs = len({report.batch_size for report in reports}) > 1
    notes += dict.fromkeys(note for report in reports for note in describe_batch(report, named=batch_differs))
    if batch_differs:
        notes.append("The columns are not for the same batch size; what grows with the batch does not compare.")
    if _has_framework_difference(comparison):
        notes.append(
            "Between frameworks less than 2 % is neither better nor worse: what they count as parameters differs."
        )
    if len({report.conditions for report in reports}) > 1:  # the notes above name those of each report
        notes.append(
            "The reports were made under different conditions, named above, which make a difference of their own."
        )
    return Notes((*notes, *_describe_origins(reports), *_describe_ratios(comparison)))


def _has_framework_difference(comparison: Comparison) -> bool:
    others = range(len(comparison.others))
    return any(differs_by_convention(comparison, key, index) for key in comparison for index in others)


def _merge_notes(reports: Sequence[Report], silent: Collection[str]) -> list[str]:
    """Return the notes of all reports, each once: first those that every report has, then others after its names."""
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
    if any(record.value.is_noisy for record in list_records(report, Measurement)):
        yield "noisy times: measure longer, such as max_seconds=30, while nothing else runs"


class _Lack(NamedTuple):
    """What is wrong with a value, "lower bound" or "failed", and why."""

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


# Tables of layers and operators ---------------------------------------------------------------------------------------


def top_row_note(table: Table) -> str:
    """Return what stands first in a ranked table, in words: "the slowest of 217 layers is conv1 (Conv2d), 3.1 ms".

    The slowest layer is the one with the most own forward time, as in every ranking. The one with the most own backward
    time is named after it if the table has such times.
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
    if not whole or any(row.get("own_forward_seconds") is None for row in table):
        return ""
    share = sum(row["own_forward_seconds"] for row in table) / whole
    if abs(share - 1) < _GAP:
        return ""
    return (
        f"noisy: the own times of layers, a median each, add up to {share_text(share)} of the model's; measure longer"
    )


def _write_top_row(table: Table, ranked: Ranked) -> str:
    """Return the first of ranked rows with its value, and the share of the whole model where that is known."""
    row, by = ranked.rows[0], ranked.by
    label = next((str(row[name]) for name in _LABELS if row.get(name)), "the model itself")
    layer = f" in {row['layer']}" if "operator" in row and row.get("layer") else ""
    kind = f" ({row['type']})" if row.get("path") and row.get("type") else ""
    value = Column.of(by).show(row[by])
    return f"{label}{layer}{kind}, {value}{_write_large_noise(table, row, by)}{_write_share(table, row, by)}"


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


# Times that are compared ----------------------------------------------------------------------------------------------


class _Timed(NamedTuple):
    """Another model of a comparison, with its time and the ratio of that to the reference's."""

    name: str
    time: Measurement
    ratio: Ratio


def _describe_ratios(comparison: Comparison) -> Iterator[str]:
    """Yield how the times of a comparison were taken, what the brackets hold, and which ratios are not known well.

    All of it is read from the first time that the reference has more than one sample of.
    """
    records = [record for record in list_records(comparison.reference, Measurement) if len(record.value.samples) > 1]
    if not records:
        return
    record, reference = records[0], records[0].value
    timed = list(_list_timed_others(comparison, record))
    same = [other.name for other in timed if other.time == reference]
    if same:
        yield f"{', '.join(same)}: the times are those of {comparison.reference.name}, not measured again."
    others = [other for other in timed if other.time != reference]
    if not others:
        return
    are_paired = all(reference.is_paired_with(other.time) for other in others)
    order = "in turn" if are_paired else "one after the other"
    interval = f"{100 * reference.confidence:.4g} % confidence interval"
    if all(other.ratio.is_range for other in others):
        interval = "smallest and largest value"
    yield f"Times are medians, measured {order}; brackets hold the {interval} of the ratio."
    if any(not (other.ratio.is_range or other.ratio.is_real) for other in others):
        yield "≈ marks a ratio whose interval holds 1: no real difference was found."
    if are_paired and any(_read_process(reference) != _read_process(other.time) for other in others):
        yield (
            "Each model was measured in a process of its own. Processes differ by some per cent even of equal models, "
            "and the interval does not show that."
        )
    for other in others:
        note = _describe_noise(other.ratio)
        if note:
            name = f" of {other.name}" if len(others) > 1 else ""
            yield f"{record.friendly_name}{name}: {note}"


def _list_timed_others(comparison: Comparison, record: StatusRecord) -> Iterator[_Timed]:
    """Yield the others of a comparison that have the time which is the record of the reference."""
    for report in comparison.others:
        other = report.statuses.get(record.key)
        if other is not None and isinstance(other.value, Measurement):
            yield _Timed(report.name, other.value, Ratio.of(record.value, other.value))


def _describe_noise(ratio: Ratio) -> str:
    """Return why a ratio is not known well; empty for one that is."""
    if ratio.warning:
        return ratio.warning
    if ratio.is_range:
        return f"too few samples for an interval of the ratio: brackets hold its {ratio.interval_name}"
    return ""


def _read_process(time: Measurement) -> str:
    return "" if time.conditions is None else time.conditions.process


def _describe_origins(reports: Sequence[Report]) -> Iterator[str]:
    """Yield one sentence if times of these reports were taken at different times or on different machines."""
    timed = list_timed(reports)
    if len(timed) < 2:
        return
    differences = []
    moments = [moment for report in timed if (moment := _read_moment(report)) is not None]
    if moments and max(moments) - min(moments) > _TOGETHER:
        differences.append("at different times")
    differing = [name for name in (*_MACHINE, *_BY_FRAMEWORK) if _is_stated_differently(timed, name)]
    if differing:
        differences.append("on different devices" if differing == ["device"] else "on different machines")
    if differences:
        origins = "; ".join(f"{report.name}: {_describe_origin(report, differing)}" for report in timed)
        yield f"The times were taken {' and '.join(differences)}, so that they compare with care ({origins})."


def _is_stated_differently(reports: Sequence[Report], name: str) -> bool:
    """Return whether reports state a fact differently; one that does not state it does not differ."""
    stated: dict[str, set[str]] = {}
    for report in reports:
        if (fact := report.environment.get(name)) is not None:
            stated.setdefault(report.backend if name in _BY_FRAMEWORK else "", set()).add(fact)
    return any(len(facts) > 1 for facts in stated.values())


def _read_moment(report: Report) -> datetime | None:
    """Return when a report was made; None where that is not known, or without its time zone."""
    try:
        moment = datetime.fromisoformat(report.created)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _describe_origin(report: Report, facts: Sequence[str]) -> str:
    moment = _read_moment(report)
    date = "date unknown" if moment is None else f"{moment:%Y-%m-%d %H:%M}"
    return ", ".join([date, *(f"{name} {report.environment.get(name, 'unknown')}" for name in facts)])
