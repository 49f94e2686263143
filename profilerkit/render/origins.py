"""When and where reports were made, where that makes their times no fair comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ..times.batch_sweep import BatchSweep
from ..times.measurement import Measurement
from .grids import list_records

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["different_origins", "list_timed"]

#: Facts of a machine by which it is another one; the versions of frameworks are in the report besides.
_MACHINE = ("host", "cpu", "cores", "usable_cores", "memory_bytes", "os")
#: Facts that a framework states in its own words, which differ from framework to framework.
_BY_FRAMEWORK = ("device", "devices")
#: Reports that are made together are made within this time.
_TOGETHER = timedelta(hours=1)


def different_origins(reports: Sequence[Report]) -> Iterator[str]:
    """Yield one sentence if times of these reports were taken at different times or on different machines."""
    timed = list_timed(reports)
    if len(timed) < 2:
        return
    differing = [name for name in (*_MACHINE, *_BY_FRAMEWORK) if _is_stated_differently(timed, name)]
    moments = [moment for report in timed if (moment := _read_moment(report)) is not None]
    apart = len(moments) > 1 and max(moments) - min(moments) > _TOGETHER
    if not (differing or apart):
        return
    origins = "; ".join(f"{report.name}: {_describe_origin(report, differing)}" for report in timed)
    where = "devices" if differing == ["device"] else "machines"
    what = " and ".join([*(["at different times"] if apart else []), *([f"on different {where}"] if differing else [])])
    yield f"The times were taken {what}, so that they compare with care ({origins})."


def list_timed(reports: Sequence[Report]) -> list[Report]:
    """Return the reports that have measured times."""
    return [report for report in reports if list_records(report, Measurement, BatchSweep)]


def _is_stated_differently(reports: Sequence[Report], name: str) -> bool:
    """Return whether reports state a fact differently; one that does not state it does not differ."""
    stated: dict[str, set[str]] = {}
    for report in reports:
        if (fact := report.environment.get(name)) is not None:
            stated.setdefault(report.backend if name in _BY_FRAMEWORK else "", set()).add(fact)
    return any(len(facts) > 1 for facts in stated.values())


def _read_moment(report: Report) -> datetime | None:
    """Return when a report was made; None where that is not known, or without its time zone."""
    try:
        moment = datetime.fromisoformat(report.created)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _describe_origin(report: Report, facts: Sequence[str]) -> str:
    moment = _read_moment(report)
    date = "date unknown" if moment is None else f"{moment:%Y-%m-%d %H:%M}"
    return ", ".join([date, *(f"{name} {report.environment.get(name, 'unknown')}" for name in facts)])
