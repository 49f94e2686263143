"""The reason why a process ended early, as a sentence; and the report with the values that it had computed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..errors import FailureCode
from ..piping.status import Completeness, Metric, Outcome
from .limits import Limits, format_bytes
from .supervisor import Ending

if TYPE_CHECKING:
    from ..piping.function import ProfilerFunction
    from ..results.report import Report, StatusRecord

__all__ = [
    "Fate",
    "default_metrics",
    "find_code",
    "functions_for_any_backend",
    "report_before",
    "with_reason",
    "write_reason",
]

_SIGNALS = {
    "SIGSEGV": "segmentation fault",
    "SIGBUS": "bus error",
    "SIGABRT": "abort",
    "SIGFPE": "floating-point exception",
    "SIGILL": "illegal instruction",
}
#: Lines of the process's standard error that a reason quotes, and how long all of them may be.
_LINES, _LENGTH = 3, 400
#: How many of the metrics that were being computed are named.
_NAMED = 4
#: What faulthandler writes above the frames of a thread, the innermost first.
_STACK = re.compile(r"most recent call first\):\n((?:  File .*\n?)+)")
_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+) in (?P<name>\S+)')
_NOT_THE_MODEL = re.compile(r"[\\/](profilerkit[\\/]|profilerkit_\w+[\\/]|site-packages[\\/]|lib[\\/]python3)")
_OUT_OF_MEMORY = re.compile(r"MemoryError|bad_alloc|allocat|out of memory|cannot create.*map|\bOOM\b", re.IGNORECASE)
#: Lines of a stack, which hold names of files and code: ``modeling_bloom.py``, ``allocator.py``.
_STACK_LINE = re.compile(r"\s+File |    |Extension modules: ")


@dataclass(frozen=True)
class Fate:
    """The known facts about a process that ended early.

    ``code`` is TIMEOUT if the caller's time limit was reached, CHANNEL if the descriptor of the results was closed or
    written to (``detail`` says how), LOST if the supervisor itself was killed, and None otherwise.
    """

    ending: Ending | None
    limits: Limits
    code: FailureCode | None = None
    detail: str = ""
    stage: str = ""
    doing: tuple[str, ...] = ()
    stderr: str = ""


def write_reason(fate: Fate) -> str:
    """Return the reason with the metric that was computed, the place in the code, and the last lines of output."""
    where, lines = _location(fate.stderr), _last_lines(fate.stderr)
    location = f", in {where}" if where else ""
    quoted = f"; its standard error ends with: {lines}" if lines else ""
    return f"{_cause(fate)} while {_work(fate)}{location}{quoted}"


def find_code(fate: Fate) -> FailureCode:
    """Return the cause as a code, in the order of `write_reason`; a process refused memory is of MEMORY too."""
    ending = fate.ending or Ending()
    if fate.code is not FailureCode.TIMEOUT and ending.why in ("memory", "threads"):
        return FailureCode(ending.why)
    if fate.code is not None:
        return fate.code
    if _ran_out_of_memory(fate):
        return FailureCode.MEMORY
    return FailureCode.EXIT if ending.signal is None else FailureCode.SIGNAL


def _ran_out_of_memory(fate: Fate) -> bool:
    """Return whether a process that ended by itself says on its standard error that it was refused memory."""
    lines = [line for line in fate.stderr[-4000:].splitlines() if not _STACK_LINE.match(line)]
    return fate.limits.memory is not None and any(map(_OUT_OF_MEMORY.search, lines))


def _work(fate: Fate) -> str:
    if not fate.doing:
        return fate.stage or "starting"
    more = len(fate.doing) - _NAMED
    return f"computing {', '.join(fate.doing[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _cause(fate: Fate) -> str:
    ending, limits = fate.ending or Ending(), fate.limits
    if fate.code is FailureCode.TIMEOUT:
        return f"the process was ended at its time limit of {limits.timeout:g} s"
    if ending.why == "memory":
        return _memory(ending, limits)
    if ending.why == "threads":
        seen = f", having {ending.threads:,}," if ending.threads else ""
        return f"the process was ended at its limit of {limits.max_threads:,} threads{seen}"
    if fate.code is FailureCode.CHANNEL:
        return f"the model closed the descriptor that results go through, or wrote to it ({fate.detail}),"
    if fate.code is FailureCode.LOST:
        return "the process that watches over the model was killed"
    return _own_end(fate, ending)


def _memory(ending: Ending, limits: Limits) -> str:
    limit = limits.memory or 0
    over = max(ending.peak_bytes - limit, 0)
    seen = f"holding {format_bytes(ending.peak_bytes)} ({format_bytes(over)} over it)"
    return f"the process was ended at its memory limit of {format_bytes(limit)}, {seen},"


def _own_end(fate: Fate, ending: Ending) -> str:
    if ending.signal is not None:
        name = _name_signal(ending.signal)
        more = f" ({_SIGNALS[name]})" if name in _SIGNALS else ""
        if name == "SIGKILL":
            more = ", which was not sent from here: most often the system does that where memory runs out,"
        sentence = f"the process was ended by {name}{more}"
    elif ending.code is not None:
        sentence = f"the process left by itself with exit code {ending.code}"
    else:
        sentence = "the process ended"
    if _ran_out_of_memory(fate):
        return f"{sentence}, out of memory under its limit of {format_bytes(fate.limits.memory or 0)},"
    return sentence


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _location(stderr: str) -> str:
    """Return the place in the code from the last output of faulthandler; the user's code comes first."""
    stacks = _STACK.findall(stderr)
    frames = list(_FRAME.finditer(stacks[-1])) if stacks else []
    model_frames = [frame for frame in frames if not _NOT_THE_MODEL.search(frame["file"])]
    innermost = (model_frames or frames)[:1]
    return "".join(f"{frame['name']} ({frame['file']}:{frame['line']})" for frame in innermost)


def _last_lines(stderr: str) -> str:
    """Return the last lines of text, without the frames and lists of faulthandler."""
    before = re.split(
        r"^(?:Fatal Python error: |Current thread |Thread 0x|Stack \(most recent)",
        stderr,
        maxsplit=1,
        flags=re.MULTILINE,
    )[0]
    lines = [line.strip() for line in before.splitlines() if line.strip()][-_LINES:]
    text = " | ".join(lines)
    return text if len(text) <= _LENGTH else f"...{text[-_LENGTH:]}"


# Reports --------------------------------------------------------------------------------------------------------------


def with_reason(report: Report, pending: Sequence[str], doing: Sequence[str], reason: str, code: FailureCode) -> Report:
    """Return a report with a reason for each missing metric: those that were computed failed, others were not reached.

    If none was being computed yet, all of them failed.
    """
    short = reason.partition("; its standard error")[0]
    failing = set(doing) & set(pending) or set(pending)
    records = dict(report.statuses)
    for key in pending:
        if key not in records:
            continue
        failed = key in failing
        records[key] = replace(
            records[key],
            value=None,
            completeness=Completeness.FAILED if failed else Completeness.UNAVAILABLE,
            missing=(reason if failed else f"not reached: {short}",),
            failure=code if failed else None,
        )
    without_record = tuple(f"{key} failed: {reason}" for key in pending if key not in records)
    note = () if pending else (f"after everything was computed {reason}",)
    return replace(report, statuses=records, notes=(*report.notes, *without_record, *note))


def report_before(name: str, metrics: Sequence[str] | None) -> tuple[Report, list[str]]:
    """Return a report without values for a process that ended before it named its metrics, and its keys.

    Without ``metrics``, the keys are those that plugins offer for any backend.
    """
    from ..process.environment import machine
    from ..results.report import Report

    records = {record.key: record for record in _records(metrics)}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    report = Report(name, "unknown", "unknown", records, environment=machine(), created=now)
    return report, list(metrics) if metrics is not None else list(records)


def _records(metrics: Sequence[str] | None) -> list[StatusRecord]:
    from ..plugging.offers import list_status_keys
    from ..results.report import StatusRecord

    outcome = Outcome(None, Completeness.UNAVAILABLE, ("not reached",))
    named = {offer.item.NAME: offer.item for offer in list_status_keys() if issubclass(offer.item, Metric)}
    names = default_metrics(functions_for_any_backend()) if metrics is None else metrics
    return [StatusRecord.of(_template(named.get(name), name).with_outcome(outcome)) for name in names]


def _template(kind: type[Any] | None, name: str) -> Metric:
    try:
        return kind() if kind is not None else _make_unknown_metric(name)
    except MemoryError:
        raise
    except Exception:  # a metric that is made with arguments
        return _make_unknown_metric(name)


def _make_unknown_metric(name: str) -> Metric:
    unknown: Metric = type("Unknown", (Metric,), {"NAME": name, "__doc__": ""})()
    return unknown


def functions_for_any_backend() -> list[ProfilerFunction]:
    """Return the functions that plugins offer for every backend."""
    from ..backend import Backend
    from ..plugging.offers import functions_offered

    stand_in: Any = type("UnknownBackend", (Backend,), {"name": "unknown"})
    stand_in.__abstractmethods__ = frozenset()
    return [offer.item for offer in functions_offered(stand_in())]


def default_metrics(functions: Iterable[ProfilerFunction]) -> list[str]:
    """Return the metrics of a report for which no names are given: those that are not computed on demand only."""
    keys = [key for function in functions if not function.ON_DEMAND for key in function.list_keys()]
    return [key.NAME for key in keys if isinstance(key, Metric)]
