"""Engines: they run the cases of an audit, each in a separate process, and yield the outcome of each."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from profilerkit.error_text import error_line
from profilerkit.errors import FailureCode, NotOfferedError, by_likeness
from profilerkit.hooks.infos import EngineInfo
from profilerkit.hooks.manager import find_offer, list_infos, load_offer
from profilerkit.isolation.reasons import Reason
from profilerkit.isolation.reports import explain_missing, make_unreached_report
from profilerkit.times.measurement import Measurement

from .cases import Case
from .machines import digest_machine
from .origins import read_clock
from .plausibility import find_flags
from .rows import Row, RowStatus, read_report

if TYPE_CHECKING:
    from profilerkit.isolation.run import IsolatedRun
    from profilerkit.results.report import Report


@dataclass(frozen=True)
class EngineOptions:
    """The options of an engine.

    Args:
        workers: How many models are counted at the same time; None for one model for each core.
        repeats: How often a case whose times are noisy is measured again.
        address: The address of a cluster, for an engine with a cluster; None for a cluster on this machine.
        on_start: A function called with each case when its process is started, for progress; None for no progress.
    """

    workers: int | None = None
    repeats: int = 2
    address: str | None = None
    on_start: Callable[[Case], None] | None = None


class Engine(ABC):
    """Runs cases and yields their outcomes; an instance serves one audit.

    An engine raises no error for a model: a crash, a time-out and a lost machine are outcomes with a reason.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.options = options

    @classmethod
    def location(cls, machine: str) -> str:
        """Return where cases are timed, for their keys: the kind of this machine, unless they run elsewhere.

        A row has the kind of the machine on which it was measured in any case.
        """
        return machine

    @abstractmethod
    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        """Run each case once in a separate process, and yield its outcome when it is ready, in any order.

        Closing the iterator ends all processes that still run.
        """

    def tell_start(self, case: Case) -> None:
        """Say that the process of a case is started."""
        if self.options.on_start is not None:
            self.options.on_start(case)


def find_engine(name: str) -> type[Engine]:
    """Return the class of an engine.

    Raises `NotOfferedError` for an unknown name, and if it cannot be loaded; `RegistrationConflictError` if two plugins
    offer engines of the same name.
    """
    offer = find_offer(EngineInfo, name)
    if offer is None:
        names = by_likeness(name, [other.item.name for other in list_infos(EngineInfo)])
        raise NotOfferedError(f"there is no engine {name!r}; there are, nearest first: {', '.join(names)}")
    try:
        engine: type[Engine] = load_offer(
            offer, lambda loaded: isinstance(loaded, type) and issubclass(loaded, Engine), "is no engine"
        )
    except NotOfferedError as error:
        missing = error.__cause__
        if not isinstance(missing, ImportError):
            raise
        requirement = offer.item.requirement
        raise NotOfferedError(
            f"the engine {name!r} cannot be used: {missing}; install it with: pip install '{requirement}'"
        ) from missing
    return engine


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: its row, without run and attempt; its report, if there is one; and the machine's facts."""

    case: Case
    row: Row
    report: Report | None = None
    machine: Mapping[str, str] = field(default_factory=dict)


def read_outcome(run: IsolatedRun, case: Case, machine: Mapping[str, str], beside: int) -> Outcome:
    """Return the outcome of a process that is over; ``beside`` is how many models of the audit ran at the same time."""
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
    return dataclasses.replace(outcome, row=_add_run(outcome, run, beside))


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
        flags=find_flags(report),
        machine=digest_machine(machine),
        versions=dict(case.versions),
        code=case.code.digest,
        created=read_clock(),
    )


def _add_run(outcome: Outcome, run: IsolatedRun, beside: int) -> Row:
    """Return the row of an outcome with the seconds, the memory and the conditions of its process."""
    measured = [] if outcome.report is None else list(_list_measurements(outcome.report))
    signs = [time.conditions.busy for time in measured if time.conditions is not None and time.conditions.busy]
    warnings = {"warnings": list(dict.fromkeys(run.progress.warned))} if run.progress.warned else {}
    peak_bytes = 0 if run.ending is None else run.ending.peak_bytes
    return replace(
        outcome.row,
        seconds=round(run.seconds, 3),
        conditions={"beside": beside, "signs": list(dict.fromkeys(signs)), **warnings},
        peak_bytes=peak_bytes or None,  # 0 of a process that ended before its memory was read
    )


# Times that are measured again ----------------------------------------------------------------------------------------


def _list_measurements(report: Report) -> Iterator[Measurement]:
    return (record.value for record in report.statuses.values() if isinstance(record.value, Measurement))


def is_noisy(outcome: Outcome) -> bool:
    """Return whether an outcome should be measured again.

    It should if a median is less precise than requested, or if the machine was busy with other work.
    """
    if outcome.report is None or outcome.row.status is RowStatus.FAILED:
        return False
    measured = _list_measurements(outcome.report)
    return any(time.is_noisy or (time.conditions is not None and time.conditions.busy) for time in measured)


def pick_quietest(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome with the least noise among several outcomes of a case.

    An outcome that failed, or that lacks a value which another outcome has, is not chosen. The noise of a single
    sample, and of a median of zero, is not known, and counts as infinite.
    """
    return min(outcomes, key=_rank)


def _rank(outcome: Outcome) -> tuple[bool, int, float]:
    """Return the key that sorts outcomes, the best first: not failed, most measured values, least worst noise."""
    measured = [value for value in outcome.row.values.values() if value.is_measured]
    noises = [math.inf if value.noise is None or value.samples == 1 else value.noise for value in measured]
    return outcome.row.status is RowStatus.FAILED, -len(measured), max(noises, default=0.0)
