"""The notes on times that are compared: how and where they were taken, and which ratios are not known well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from ..results.comparison import Comparison
from ..results.report import Report, StatusRecord
from ..times.measurement import Measurement
from ..times.ratio import Ratio
from .grids import list_records
from .time_grids import list_timed

__all__ = ["describe_origins", "describe_ratios"]


class _Other(NamedTuple):
    """Another model of a comparison, with its time and the ratio of that to the reference's."""

    name: str
    time: Measurement
    ratio: Ratio


class _ComparedTime(NamedTuple):
    """A time of the reference, and the other models that have it: measured again, or with the reference's own time."""

    name: str
    reference: Measurement
    measured: list[_Other]
    reused: list[_Other]


def describe_ratios(comparison: Comparison) -> Iterator[str]:
    """Yield notes on the sampling of compared times, the meaning of the brackets, and ratios that are not known well.

    The sampling and the noise are read from the first time that was measured of two models.
    """
    times = list(_list_compared_times(comparison))
    reused = dict.fromkeys(other.name for time in times for other in time.reused)
    if reused:
        yield f"{', '.join(reused)}: the times are those of {comparison.reference.name}, not measured again."
    first = next((time for time in times if time.measured), None)
    if first is None:
        return
    yield _describe_sampling(first)
    ratios = [other.ratio for time in times for other in time.measured]
    if any(not (ratio.is_range or ratio.is_real) for ratio in ratios):
        yield "≈ marks a ratio whose interval holds 1: no real difference was found."
    yield from _describe_processes(first)
    yield from _describe_noise(first)


def _list_compared_times(comparison: Comparison) -> Iterator[_ComparedTime]:
    """Yield the times with a ratio of which the reference has several samples, each with the others that have it."""
    for record in list_records(comparison.reference, Measurement):
        reference = record.value
        if len(reference.samples) > 1 and not record.comparative.is_difference:
            others = list(_list_others(comparison, record))
            measured = [other for other in others if other.time != reference]
            reused = [other for other in others if other.time == reference]
            yield _ComparedTime(record.friendly_name, reference, measured, reused)


def _list_others(comparison: Comparison, record: StatusRecord) -> Iterator[_Other]:
    """Yield the other models that have the time which is the record of the reference."""
    for report in comparison.others:
        other = report.statuses.get(record.key)
        if other is not None and isinstance(other.value, Measurement) and other.base_unit == record.base_unit:
            yield _Other(report.name, other.value, Ratio.of(record.value, other.value))


def _describe_sampling(time: _ComparedTime) -> str:
    """Return the order in which the models were measured, and the meaning of the brackets behind their ratios."""
    order = "in turn" if _is_paired(time) else "one after the other"
    interval = f"{100 * time.reference.confidence:.4g} % confidence interval"
    if all(other.ratio.is_range for other in time.measured):
        interval = "smallest and largest value"
    return f"Times are medians, measured {order}; brackets hold the {interval} of the ratio."


def _describe_processes(time: _ComparedTime) -> Iterator[str]:
    """Yield a sentence if the models were measured in turn, and still each in a process of its own."""
    conditions = [measured.conditions for measured in (time.reference, *(other.time for other in time.measured))]
    processes = {"" if condition is None else condition.process for condition in conditions}
    if _is_paired(time) and len(processes) > 1:
        yield (
            "Each model was measured in a process of its own. Processes differ by some per cent even of equal models, "
            "and the interval does not show that."
        )


def _is_paired(time: _ComparedTime) -> bool:
    return all(time.reference.is_paired_with(other.time) for other in time.measured)


def _describe_noise(time: _ComparedTime) -> Iterator[str]:
    """Yield why ratios of a time are not known well, with the name of the model if there are several."""
    for other in time.measured:
        name = f"{time.name} of {other.name}" if len(time.measured) > 1 else time.name
        if other.ratio.warning:
            yield f"{name}: {other.ratio.warning}"
        elif other.ratio.is_range:
            yield f"{name}: too few samples for an interval of the ratio: brackets hold its {other.ratio.interval_name}"


# When and where times were taken --------------------------------------------------------------------------------------

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
