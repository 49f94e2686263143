"""The report of a separate process that ended early, or was limited: why values are missing, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ..count_text import format_count
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
from .reasons import Reason
from .supervisor import Ending

__all__ = ["add_process", "explain_missing", "make_unreached_report"]


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
    records, notes = dict(report.statuses), list(report.notes)
    for name in missing:
        has_failed = name in failed
        why = str(reason) if has_failed else f"not reached: {reason.clause}"
        if name in records:
            completeness, code = (Completeness.FAILED, reason.code) if has_failed else (Completeness.UNAVAILABLE, None)
            records[name] = replace(records[name], value=None, completeness=completeness, missing=(why,), failure=code)
        else:  # a key that is no metric
            notes.append(f"{name} {'failed: ' if has_failed else 'was '}{why}")
    if not missing:
        notes.append(f"after everything was computed {reason}")
    return replace(report, statuses=records, notes=tuple(notes))


def add_process(report: Report, limits: Limits, ending: Ending) -> Report:
    """Return a report that says that it is of a separate process, with which limits, and which processes were left."""
    notes = list(report.notes)
    if ending.survivors:
        notes.append(f"{format_count(ending.survivors, 'process')} of the model could not be ended")
    process = ["a process of its own"]
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
