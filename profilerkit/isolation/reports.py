"""The report of a separate process that ended early, or was limited: why values are missing, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ..errors import UnknownStatusError
from ..hooks.any_backend import list_default_metrics, register_for_any_backend
from ..piping.function import Need
from ..piping.outcome import Completeness, Outcome
from ..piping.quantity import format_bytes
from ..piping.registry import Registry
from ..piping.status import Metric
from ..process.environment import machine
from ..results.report import Report, StatusRecord
from .limits import Limits
from .reasons import Reason, describe_limits
from .supervisor import Ending

__all__ = ["add_limits", "add_process", "explain_missing", "make_unreached_report"]


def explain_missing(report: Report, missing: Sequence[str], computing: Sequence[str], reason: Reason) -> Report:
    """Return the report of a process that ended early, with a reason for each value that it lacks.

    Args:
        report: The last report from the process.
        missing: The names of the metrics and other keys that it had not computed when it ended.
        computing: The names that it was computing then: they have failed, and the rest was not reached. If there are
            none, the process ended before the first, and all have failed.
        reason: Why it ended.
    """
    failed = {name for name in computing if name in missing} or set(missing)
    records = dict(report.statuses)
    notes = list(report.notes)
    for name in missing:
        if name not in records:
            notes.append(f"{name} failed: {reason}")
            continue
        completeness, words, code = Completeness.UNAVAILABLE, f"not reached: {reason.clause}", None
        if name in failed:
            completeness, words, code = Completeness.FAILED, str(reason), reason.code
        records[name] = replace(records[name], value=None, completeness=completeness, missing=(words,), failure=code)
    if not missing:
        notes.append(f"after everything was computed {reason}")
    return replace(report, statuses=records, notes=tuple(notes))


def add_limits(report: Report, limits: Limits) -> Report:
    """Return a report in which values that failed for lack of memory or threads have the limits in their reason."""
    records = dict(report.statuses)
    for name, record in report.statuses.items():
        described = describe_limits(record.failure, limits)
        if described and record.missing:
            reason, *more = record.missing
            records[name] = replace(record, missing=(f"{reason}{described}", *more))
    return replace(report, statuses=records)


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


class _UndeclaredMetric(Metric):
    """A metric that no plugin computes for every backend: it has a name alone."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.NAME = name

    def description(self) -> str:
        return ""


def make_unreached_report(name: str, metrics: Iterable[str] | None, static: bool = False) -> Report:
    """Return a report on the model ``name`` that says of each metric that it was not reached.

    Without ``metrics``, it has the default metrics of a report; if ``static``, only metrics that need no run.
    """
    registry = register_for_any_backend()
    if metrics is None:
        defaults = list_default_metrics(registry)
        metrics = [key for key in defaults if not (static and registry.find_need(key) is Need.RUN)]
    keys = [_find_metric(registry, metric) for metric in metrics]
    unreached = Outcome(None, Completeness.UNAVAILABLE, ("not reached",))
    records = {key.NAME: StatusRecord.of(key.with_outcome(unreached)) for key in keys}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Report(name, "unknown", "unknown", records, environment=machine(), created=now)


def _find_metric(registry: Registry, name: str) -> Metric:
    """Return the template of a metric; one that has a name alone if no function for every backend computes it."""
    try:
        key = registry[name].key
    except UnknownStatusError:
        return _UndeclaredMetric(name)
    return key if isinstance(key, Metric) else _UndeclaredMetric(name)
