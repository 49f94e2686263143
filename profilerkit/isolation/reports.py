"""The report of an isolated model: what its process had computed, and a reason for each value that it had not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..errors import FailureCode
from ..piping.outcome import Completeness, Outcome
from ..piping.status import Metric
from .limits import Limits, format_bytes
from .reasons import Reason
from .supervisor import Ending

if TYPE_CHECKING:
    from ..piping.function import ProfilerFunction
    from ..results.report import Report, StatusRecord

__all__ = [
    "add_limits",
    "add_process",
    "default_metrics",
    "describe_limits",
    "functions_for_any_backend",
    "report_before",
    "with_reason",
]


def with_reason(report: Report, pending: Sequence[str], doing: Sequence[str], reason: Reason) -> Report:
    """Return a report with a reason for each missing metric: those that were computed failed, others were not reached.

    If none was being computed yet, all of them failed.
    """
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
            missing=(str(reason) if failed else f"not reached: {reason.clause}",),
            failure=reason.code if failed else None,
        )
    without_record = tuple(f"{key} failed: {reason}" for key in pending if key not in records)
    note = () if pending else (f"after everything was computed {reason}",)
    return replace(report, statuses=records, notes=(*report.notes, *without_record, *note))


# Before the metrics are known -----------------------------------------------------------------------------------------


def report_before(name: str, metrics: Sequence[str] | None) -> tuple[Report, list[str]]:
    """Return a report without values for a process that ended before it named its metrics, and its keys.

    Without ``metrics``, the keys are those that plugins offer for any backend.
    """
    from ..plugging.offers import list_status_keys
    from ..process.environment import machine
    from ..results.report import Report

    offered = {offer.item.NAME: offer.item for offer in list_status_keys() if issubclass(offer.item, Metric)}
    keys = default_metrics(functions_for_any_backend()) if metrics is None else metrics
    names = list(metrics) if metrics is not None else list(dict.fromkeys(keys))
    records = {key: _make_unreached(key, offered.get(key)) for key in names}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Report(name, "unknown", "unknown", records, environment=machine(), created=now), names


def _make_unreached(name: str, kind: type[Any] | None) -> StatusRecord:
    """Return the record of a metric that was not reached; ``kind`` is its class, if a plugin offers it."""
    from ..results.report import StatusRecord

    outcome = Outcome(None, Completeness.UNAVAILABLE, ("not reached",))
    return StatusRecord.of(_make_metric(name, kind).with_outcome(outcome))


def _make_metric(name: str, kind: type[Any] | None) -> Metric:
    """Return a metric of a class; one that has a name alone if there is no class, or the class takes arguments."""
    unknown: Metric = type("Unknown", (Metric,), {"NAME": name, "__doc__": ""})()
    try:
        return unknown if kind is None else kind()
    except MemoryError:
        raise
    except Exception:  # whatever it takes
        return unknown


def functions_for_any_backend() -> list[ProfilerFunction]:
    """Return the functions that plugins offer for every backend."""
    from ..backend import Backend
    from ..plugging.offers import list_profiler_functions

    stand_in: Any = type("UnknownBackend", (Backend,), {"name": "unknown"})
    stand_in.__abstractmethods__ = frozenset()
    return [offer.item for offer in list_profiler_functions(stand_in())]


def default_metrics(functions: Iterable[ProfilerFunction]) -> list[str]:
    """Return the metrics of a report for which no names are given: those that are not computed on demand only."""
    keys = [key for function in functions if not function.ON_DEMAND for key in function.list_keys()]
    return [key.NAME for key in keys if isinstance(key, Metric)]


# What the process was limited to --------------------------------------------------------------------------------------


def add_limits(report: Report, limits: Limits) -> Report:
    """Return a report in which values that failed for lack of memory or threads have the limits in their reason."""

    def add(record: StatusRecord) -> StatusRecord:
        described = describe_limits(record.failure, limits)
        if not described or not record.missing:
            return record
        first, *others = record.missing
        return replace(record, missing=(f"{first}{described}", *others))

    return replace(report, statuses={key: add(record) for key, record in report.statuses.items()})


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
