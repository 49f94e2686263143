"""What the caller adds to the report of a separate process: why values are missing, the limits, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import FailureCode
from ..piping.outcome import Completeness
from ..results.report import Report, StatusRecord
from .limits import Limits, format_bytes
from .reasons import Reason
from .supervisor import Ending

__all__ = ["add_limits", "add_process", "describe_limits", "explain_missing"]


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
