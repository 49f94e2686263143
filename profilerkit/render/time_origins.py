"""The note on times that are compared: whether they were taken at different times or on different machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from ..results.report import Report
from .time_grids import list_timed

__all__ = ["describe_origins"]

#: Facts of a report's environment that make two machines different ones. Versions of frameworks are told elsewhere.
_MACHINE = ("host", "cpu", "cores", "usable_cores", "memory_bytes", "os")
#: Facts that each framework states in its own words: they are compared only within one framework.
_BY_FRAMEWORK = ("device", "devices")
#: Times are of the same time if their reports were made within this.
_TOGETHER = timedelta(hours=1)


def describe_origins(reports: Sequence[Report]) -> Iterator[str]:
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
    """Return whether reports state a fact differently; a report without the fact does not differ."""
    stated: dict[str, set[str]] = {}
    for report in reports:
        if (fact := report.environment.get(name)) is not None:
            stated.setdefault(report.backend if name in _BY_FRAMEWORK else "", set()).add(fact)
    return any(len(facts) > 1 for facts in stated.values())


def _read_moment(report: Report) -> datetime | None:
    """Return when a report was made; None if the time is not known, or without its time zone."""
    try:
        moment = datetime.fromisoformat(report.created)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _describe_origin(report: Report, facts: Sequence[str]) -> str:
    moment = _read_moment(report)
    date = "date unknown" if moment is None else f"{moment:%Y-%m-%d %H:%M}"
    return ", ".join([date, *(f"{name} {report.environment.get(name, 'unknown')}" for name in facts)])
