"""The report of a separate process that ended early, or was limited: why values are missing, and how it ended."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from ..backend import Backend
from ..count_text import list_some
from ..errors import FailureCode
from ..hooks.offers import list_profiler_functions, list_status_keys
from ..piping.function import Need
from ..piping.outcome import Completeness, Outcome
from ..piping.registry import Registry
from ..piping.status import Metric
from ..process.environment import machine
from ..results.report import Report, StatusRecord
from .limits import Limits, format_bytes
from .supervisor import Ending

__all__ = [
    "Reason",
    "add_limits",
    "add_process",
    "describe_limits",
    "explain_missing",
    "find_reason",
    "list_default_metrics",
    "make_unreached_report",
    "register_for_any_backend",
]

_SIGNALS = {
    "SIGSEGV": "segmentation fault",
    "SIGBUS": "bus error",
    "SIGABRT": "abort",
    "SIGFPE": "floating-point exception",
    "SIGILL": "illegal instruction",
}
#: How many of the last lines of the process's standard error a reason quotes, and their most characters together.
_LINES, _LENGTH = 3, 400
#: The last characters of its standard error in which a process may say that it is out of memory.
_RECENT = 4000
#: How many of the metrics that were being computed are named.
_NAMED = 4
#: What faulthandler writes above the frames of a thread, the innermost first.
_STACK = re.compile(r"most recent call first\):\n((?:  File .*\n?)+)")
#: What faulthandler writes first.
_FAULTHANDLER = re.compile(
    r"^(?:Fatal Python error: |Current thread |Thread 0x|Stack \(most recent)", flags=re.MULTILINE
)
_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+) in (?P<name>\S+)')
_NOT_THE_MODEL = re.compile(r"[\\/](profilerkit[\\/]|profilerkit_\w+[\\/]|site-packages[\\/]|lib[\\/]python3)")
_OUT_OF_MEMORY = re.compile(r"MemoryError|bad_alloc|allocat|out of memory|cannot create.*map|\bOOM\b", re.IGNORECASE)
#: Lines of a stack, which hold names of files and code: ``modeling_bloom.py``, ``allocator.py``.
_STACK_LINE = re.compile(r"\s+File |    |Extension modules: ")


class Reason(NamedTuple):
    """Why there is no value: a code, a clause ("the process ended while starting"), and what the process wrote last."""

    code: FailureCode
    clause: str
    last_lines: str = ""

    def __str__(self) -> str:
        return f"{self.clause}; its standard error ends with: {self.last_lines}" if self.last_lines else self.clause


def find_reason(
    ending: Ending | None,
    limits: Limits,
    code: FailureCode | None = None,
    detail: str = "",
    stage: str = "",
    doing: Sequence[str] = (),
    stderr: str = "",
) -> Reason:
    """Return why a process ended early, with what it was doing, and the place in the code where that is known.

    Args:
        ending: How it ended; None where its supervisor could not say.
        limits: Its limits.
        code: TIMEOUT if the caller's time limit was reached, CHANNEL if the descriptor of the results was closed or
            written to (``detail`` says how), LOST if the supervisor itself was killed, and None otherwise.
        detail: See ``code``.
        stage: What it did before it computed anything.
        doing: The metrics that it was computing.
        stderr: What it printed on standard error.
    """
    ending = ending or Ending()
    lines = [line for line in stderr[-_RECENT:].splitlines() if not _STACK_LINE.match(line)]
    was_refused_memory = limits.memory is not None and any(map(_OUT_OF_MEMORY.search, lines))
    failure, cause = _find_cause(ending, limits, code, detail, was_refused_memory)
    work = f"computing {list_some(doing, _NAMED)}" if doing else stage or "starting"
    where = _find_location(stderr)
    clause = f"{cause} while {work}{f', in {where}' if where else ''}"
    return Reason(failure, clause, _quote_last_lines(stderr))


def _find_cause(
    ending: Ending, limits: Limits, code: FailureCode | None, detail: str, was_refused_memory: bool
) -> tuple[FailureCode, str]:
    """Return what ended a process, as a code and in words.

    That is a limit of the caller or of the supervisor, a broken channel, or the model itself.
    """
    if code is FailureCode.TIMEOUT:
        return code, f"the process was ended at its time limit of {limits.timeout:g} s"
    if ending.why == "memory":
        return FailureCode.MEMORY, _describe_memory(ending, limits)
    if ending.why == "threads":
        seen = f", having {ending.threads:,}," if ending.threads else ""
        return FailureCode.THREADS, f"the process was ended at its limit of {limits.max_threads:,} threads{seen}"
    if code is FailureCode.CHANNEL:
        return code, f"the model closed the descriptor that results go through, or wrote to it ({detail}),"
    if code is FailureCode.LOST:
        return code, "the process that watches over the model was killed"
    sentence = _describe_own_end(ending)
    if was_refused_memory:
        limit = format_bytes(limits.memory or 0)
        return FailureCode.MEMORY, f"{sentence}, out of memory under its limit of {limit},"
    return FailureCode.EXIT if ending.signal is None else FailureCode.SIGNAL, sentence


def _describe_memory(ending: Ending, limits: Limits) -> str:
    limit = limits.memory or 0
    over = max(ending.peak_bytes - limit, 0)
    seen = f"holding {format_bytes(ending.peak_bytes)} ({format_bytes(over)} over it)"
    return f"the process was ended at its memory limit of {format_bytes(limit)}, {seen},"


def _describe_own_end(ending: Ending) -> str:
    """Return how a process ended that nobody here has ended."""
    if ending.signal is None:
        return (
            "the process ended" if ending.code is None else f"the process left by itself with exit code {ending.code}"
        )
    name = _name_signal(ending.signal)
    if name == "SIGKILL":
        more = ", which was not sent from here: most often the system does that where memory runs out,"
    else:
        more = f" ({_SIGNALS[name]})" if name in _SIGNALS else ""
    return f"the process was ended by {name}{more}"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _find_location(stderr: str) -> str:
    """Return the innermost place in the code that faulthandler wrote last: in the user's own code, if it has any."""
    stacks = _STACK.findall(stderr)
    frames = list(_FRAME.finditer(stacks[-1])) if stacks else []
    if not frames:
        return ""
    model_frames = [frame for frame in frames if not _NOT_THE_MODEL.search(frame["file"])]
    innermost = (model_frames or frames)[0]
    return f"{innermost['name']} ({innermost['file']}:{innermost['line']})"


def _quote_last_lines(stderr: str) -> str:
    """Return the last lines that the process wrote before faulthandler wrote its own."""
    written = _FAULTHANDLER.split(stderr, maxsplit=1)[0]
    lines = [line.strip() for line in written.splitlines() if line.strip()][-_LINES:]
    text = " | ".join(lines)
    return text if len(text) <= _LENGTH else f"...{text[-_LENGTH:]}"


# Adding it to a report ------------------------------------------------------------------------------------------------


def explain_missing(report: Report, missing: Sequence[str], computing: Sequence[str], reason: Reason) -> Report:
    """Return the report of a process that ended early, with a reason for each value that it lacks.

    Args:
        report: What the process had sent.
        missing: The names of the metrics and other keys that it had not computed when it ended.
        computing: Those that it was computing then: they have failed, and the rest was not reached. If there are none,
            the process ended before the first, and all have failed.
        reason: Why it ended.
    """
    failed = {name for name in computing if name in missing} or set(missing)
    records = dict(report.statuses)
    notes = list(report.notes)
    for name in missing:
        if name not in records:
            notes.append(f"{name} failed: {reason}")
        elif name in failed:
            reasons = (str(reason),)
            records[name] = replace(
                records[name], value=None, completeness=Completeness.FAILED, missing=reasons, failure=reason.code
            )
        else:
            reasons = (f"not reached: {reason.clause}",)
            records[name] = replace(
                records[name], value=None, completeness=Completeness.UNAVAILABLE, missing=reasons, failure=None
            )
    if not missing:
        notes.append(f"after everything was computed {reason}")
    return replace(report, statuses=records, notes=tuple(notes))


def add_limits(report: Report, limits: Limits) -> Report:
    """Return a report in which values that failed for lack of memory or threads have the limits in their reason."""
    return replace(report, statuses={name: _add_limits(record, limits) for name, record in report.statuses.items()})


def _add_limits(record: StatusRecord, limits: Limits) -> StatusRecord:
    described = describe_limits(record.failure, limits)
    if not described or not record.missing:
        return record
    reason, *more = record.missing
    return replace(record, missing=(f"{reason}{described}", *more))


def describe_limits(code: FailureCode | None, limits: Limits) -> str:
    """Return in brackets the limits that a failure is about; empty if it is about none."""
    parts = []
    if limits.memory is not None and code in (FailureCode.MEMORY, FailureCode.THREADS):
        parts.append(f"{format_bytes(limits.memory)} of memory")
    if limits.max_threads is not None and code is FailureCode.THREADS:
        parts.append(f"{limits.max_threads:,} threads")
    return f" (the process was limited to {' and '.join(parts)})" if parts else ""


def add_process(report: Report, start_method: str, limits: Limits, ending: Ending) -> Report:
    """Return a report that says which process it is of, and which processes of the model were left when it ended."""
    notes = list(report.notes)
    if ending.left_behind:
        notes.append(f"{ending.left_behind} processes that the model had started were ended when it was done")
    if ending.survivors:
        notes.append(f"{ending.survivors} processes that the model had started could not be ended")
    process = [f"a process of its own ({start_method})"]
    if limits.timeout is not None:
        process.append(f"at most {limits.timeout:g} s")
    if limits.memory is not None:
        process.append(f"at most {format_bytes(limits.memory)}, a GPU's memory not limited")
    environment = {**report.environment, "isolation": ", ".join(process)}
    return replace(report, notes=tuple(notes), environment=environment)


# A report of a process that has named no metric -----------------------------------------------------------------------


class _UnknownBackend(Backend):
    """Stands for the backend of a model that was not loaded: what plugins offer for it, they offer for any backend."""

    name = "unknown"


_UnknownBackend.__abstractmethods__ = frozenset()  # it is made without them, as no plugin calls them


class _UndeclaredMetric(Metric):
    """A metric that no plugin declares: it has a name alone."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.NAME = name

    def description(self) -> str:
        return ""


def make_unreached_report(name: str, metrics: Iterable[str] | None, static: bool = False) -> Report:
    """Return a report on the model ``name`` that says of each metric that it was not reached.

    Without ``metrics``, it has those that a report has by default: if ``static``, those for which nothing runs.
    """
    if metrics is None:
        registry = register_for_any_backend()
        defaults = list_default_metrics(registry)
        metrics = [key for key in defaults if not (static and registry.find_need(key) is Need.RUN)]
    declared = {offer.item.NAME: offer.item for offer in list_status_keys() if issubclass(offer.item, Metric)}
    unreached = Outcome(None, Completeness.UNAVAILABLE, ("not reached",))
    records = {key: StatusRecord.of(_make_metric(key, declared.get(key)).with_outcome(unreached)) for key in metrics}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Report(name, "unknown", "unknown", records, environment=machine(), created=now)


def _make_metric(name: str, declared: type[Metric] | None) -> Metric:
    """Return a metric of the declared class; one that has a name alone if there is none, or if it cannot be made."""
    if declared is not None:
        try:
            return declared()
        except MemoryError:
            raise
        except Exception:  # its constructor may need arguments
            pass
    return _UndeclaredMetric(name)


def register_for_any_backend() -> Registry:
    """Return a registry of the functions that plugins offer for every backend."""
    offers = list_profiler_functions(_UnknownBackend())  # type: ignore[abstract]
    return Registry.of_defaults([(offer.item, offer.plugin) for offer in offers], ())


def list_default_metrics(registry: Registry) -> list[str]:
    """Return the metrics that a report has if none are named: all that are not computed on demand only."""
    return [name for name in registry.names() if isinstance(registry[name].key, Metric)]
