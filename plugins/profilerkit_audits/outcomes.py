"""What came of a case: its row and its report, from the process that ran it, however that ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from profilerkit.error_text import error_line
from profilerkit.errors import FailureCode
from profilerkit.isolation.reports import Reason, explain_missing, make_unreached_report
from profilerkit.times.measurement import Measurement

from .cases import Case
from .machines import digest_machine, read_clock
from .plausibility import find_flags
from .rows import Row, RowStatus, read_report

if TYPE_CHECKING:
    from profilerkit.isolation.run import IsolatedRun
    from profilerkit.results.report import Report

__all__ = ["Outcome", "is_noisy", "pick_quietest", "read_outcome", "without_run"]


@dataclass(frozen=True)
class Outcome:
    """What came of a case: its row, without run and attempt; its report, if there is one; the facts of the machine."""

    case: Case
    row: Row
    report: Report | None = None
    machine: Mapping[str, str] = field(default_factory=dict)


def read_outcome(run: IsolatedRun, case: Case, machine: Mapping[str, str], conditions: dict[str, Any]) -> Outcome:
    """Return the outcome of a process that is over; ``conditions`` are how busy the machine was."""
    try:
        report = run.result()
    except Exception as error:  # whatever the model and its loader raised
        reason = error_line(error) or type(error).__name__
        outcome = without_run(case, machine, run.failure or FailureCode.MODEL, reason)
    else:
        row = _make_row(case, machine, report)
        if run.failure is not None:  # its last note says why
            row = replace(row, failure=run.failure, reason=row.reason or next(iter(report.notes[-1:]), ""))
        outcome = Outcome(case, row, report, machine)
    return dataclasses.replace(outcome, row=_add_run(outcome, run, conditions))


def without_run(case: Case, machine: Mapping[str, str], failure: FailureCode, reason: str) -> Outcome:
    """Return the outcome of a case without a report; in the row each metric that was requested has the reason."""
    unreached = make_unreached_report(case.spec, case.metrics)
    report = explain_missing(unreached, list(unreached.statuses), (), Reason(failure, reason))
    return Outcome(case, replace(_make_row(case, machine, report), failure=failure, reason=reason), machine=machine)


def _make_row(case: Case, machine: Mapping[str, str], report: Report) -> Row:
    return read_report(
        report,
        spec=case.spec,
        key=case.key,
        settings=dict(case.settings),
        flags=find_flags(report, case.settings.get("device"), case.precision),
        machine=digest_machine(machine),
        versions=dict(case.versions),
        code=case.code.digest,
        created=read_clock(),
    )


def _add_run(outcome: Outcome, run: IsolatedRun, conditions: Mapping[str, Any]) -> Row:
    """Return the row of an outcome with the seconds, the memory and the conditions of its process."""
    measured = [] if outcome.report is None else list(_list_measurements(outcome.report))
    signs = [time.conditions.busy for time in measured if time.conditions is not None and time.conditions.busy]
    warnings = {"warnings": list(dict.fromkeys(run.progress.warned))} if run.progress.warned else {}
    peak_bytes = 0 if run.ending is None else run.ending.peak_bytes
    return replace(
        outcome.row,
        seconds=round(run.seconds, 3),
        conditions={**conditions, "signs": list(dict.fromkeys(signs)), **warnings},
        peak_bytes=peak_bytes or None,  # 0 of a process that ended before its memory was read
    )


# Times that are measured again ----------------------------------------------------------------------------------------


def _list_measurements(report: Report) -> Iterator[Measurement]:
    return (record.value for record in report.statuses.values() if isinstance(record.value, Measurement))


def is_noisy(outcome: Outcome) -> bool:
    """Return whether an outcome should be measured again.

    It should if a median is not known as well as was requested, or if the machine was busy with other things.
    """
    if outcome.report is None or outcome.row.status is RowStatus.FAILED:
        return False
    measured = _list_measurements(outcome.report)
    return any(time.is_noisy or (time.conditions is not None and time.conditions.busy) for time in measured)


def pick_quietest(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome with the least noise of several of one case, with the medians of all of them in its row."""
    best = min(outcomes, key=_find_worst_noise)
    if len(outcomes) == 1:
        return best
    names = [name for name, value in best.row.values.items() if value.is_measured]
    values = {name: [outcome.row.values.get(name) for outcome in outcomes] for name in names}
    tries = {
        name: tuple(float(value.value) for value in several if value is not None and value.value is not None)
        for name, several in values.items()
    }
    return dataclasses.replace(best, row=replace(best.row, tries=tries))


def _find_worst_noise(outcome: Outcome) -> float:
    noises = [value.noise for value in outcome.row.values.values() if value.noise is not None]
    return float("inf") if outcome.row.status is RowStatus.FAILED else max(noises, default=0.0)
