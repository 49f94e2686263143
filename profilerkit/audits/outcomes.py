"""What came of a case: its row and its report, from the process that ran it, however that ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..errors import BackendNotInstalledError
from ..isolation.reasons import report_before, with_reason
from ..piping.status import Completeness
from ..times.measurement import Measurement
from .cases import Case
from .plausibility import flags_of
from .rows import End, Row, RowStatus, status_of, values_of
from .store import now

if TYPE_CHECKING:
    from ..isolation.run import IsolatedRun
    from ..results.report import Report

__all__ = ["Outcome", "noise_of", "outcome_of", "outcome_without_run", "quietest"]

_ENDS = {
    "timeout": End.TIMEOUT,
    "memory": End.MEMORY,
    "threads": End.THREADS,
    "channel": End.CHANNEL,
    "lost": End.LOST,
    "signal": End.SIGNAL,
    "exit": End.EXIT,
}
_MISSING = re.compile(r"needs the package|No module named '|cannot be imported \(|pip install")
_OUT_OF_MEMORY = re.compile(r"limited to [\d.]+ \w+ of memory")
_OUT_OF_THREADS = re.compile(r"limited to .*[\d,]+ threads\)")


@dataclass(frozen=True)
class Outcome:
    """What came of a case: its row, without run and attempt; its report, if there is one; the facts of the machine."""

    case: Case
    row: Row
    report: Report | None = None
    machine: Mapping[str, str] = field(default_factory=dict)


def outcome_of(run: IsolatedRun, case: Case, machine: Mapping[str, str], conditions: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a process that is over."""
    report: Report | None = None
    problem = ""
    missing = False
    try:
        shown = report = run.result()
    except Exception as error:  # whatever the model and its loader raised
        problem = " ".join(str(error).split()) or type(error).__name__
        missing = isinstance(error, BackendNotInstalledError)
        shown = _unreported(case, problem)
    end = End.MISSING_PACKAGE if missing else _end_by(problem) if problem else _ENDS.get(run.early_end, End.DONE)
    row = replace(
        _row(case, shown, machine, end, problem),
        seconds=round(run.seconds, 3),
        conditions=_with_signs(conditions, shown, run.progress.warned),
        peak_bytes=None if run.ending is None else run.ending.peak_bytes or None,
    )
    return Outcome(case, row, report, machine)


def outcome_without_run(case: Case, machine: Mapping[str, str], reason: str, end: End | None = None) -> Outcome:
    """Return the outcome of a case that could not be run at all."""
    kind = end or (End.MISSING_PACKAGE if _MISSING.search(reason) else End.ERROR)
    return Outcome(case, _row(case, _unreported(case, reason), machine, kind, reason), None, machine)


def _row(case: Case, report: Report, machine: Mapping[str, str], end: End, problem: str) -> Row:
    from .machines import machine_digest

    values = values_of(report)
    status, reason = status_of(values)
    reasons = "; ".join(value.reason for value in values.values() if value.completeness is Completeness.FAILED)
    if end is End.DONE and status is RowStatus.FAILED:
        end = _end_by(reasons)
    return Row(
        spec=case.spec,
        key="",  # the audit has it: it knows for which place
        status=status,
        end=end,
        reason=problem or reason or (report.notes[-1] if end is not End.DONE and report.notes else ""),
        settings=dict(case.settings),
        values=values,
        name=report.name,
        backend=report.backend,
        model_type=report.model_type,
        fingerprint=report.fingerprint,
        flags=flags_of(report, case.device, case.precision),
        machine=machine_digest(machine),
        versions=dict(case.versions),
        code=case.code.digest,
        created=now(),
    )


def _end_by(reason: str) -> End:
    """Return the end of a process that reported an error itself, from the words of the error."""
    if _OUT_OF_THREADS.search(reason):
        return End.THREADS
    if _OUT_OF_MEMORY.search(reason):
        return End.MEMORY
    return End.MISSING_PACKAGE if _MISSING.search(reason) else End.ERROR


def _unreported(case: Case, reason: str) -> Report:
    """Return a report with a reason for each metric, for a case whose process has sent none."""
    names = None if case.metrics is None else list(case.metrics)
    report, pending = report_before(case.spec, names)
    return with_reason(report, pending, (), reason)


def _with_signs(conditions: Mapping[str, Any], report: Report, warned: Sequence[str]) -> dict[str, Any]:
    """Return the conditions with what the measurements themselves noticed, and what profilerkit warned of."""
    times = [record.value for record in report.statuses.values() if isinstance(record.value, Measurement)]
    signs = [each.conditions.busy for each in times if each.conditions is not None and each.conditions.busy]
    warnings = {"warnings": list(dict.fromkeys(warned))} if warned else {}
    return {**conditions, "signs": list(dict.fromkeys(signs)), **warnings}


# Times that are measured again ----------------------------------------------------------------------------------------


def noise_of(outcome: Outcome) -> float | None:
    """Return the largest noise among the times of an outcome if it should be measured again; None otherwise.

    It should if a median is not known as well as was requested, or if the machine was busy with other things.
    """
    if outcome.report is None or outcome.row.status is RowStatus.FAILED:
        return None
    values = [record.value for record in outcome.report.statuses.values()]
    times = [value for value in values if isinstance(value, Measurement)]
    flaky = [each for each in times if each.is_noisy or (each.conditions is not None and each.conditions.busy)]
    return max((each.noise for each in times), default=None) if flaky else None


def quietest(outcomes: list[Outcome]) -> Outcome:
    """Return the outcome with the least noise of several of one case, with the medians of all of them in its row."""
    best = min(outcomes, key=_worst_noise)
    if len(outcomes) == 1:
        return best
    names = [name for name, value in best.row.values.items() if value.measured]
    tries = {name: tuple(_medians(outcomes, name)) for name in names}
    return replace(best, row=replace(best.row, tries=tries))


def _worst_noise(outcome: Outcome) -> float:
    noises = [value.noise for value in outcome.row.values.values() if value.noise is not None]
    return float("inf") if outcome.row.status is RowStatus.FAILED else max(noises, default=0.0)


def _medians(outcomes: list[Outcome], name: str) -> list[float]:
    values = [outcome.row.values[name].value for outcome in outcomes if name in outcome.row.values]
    return [value for value in values if value is not None]
