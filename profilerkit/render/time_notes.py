"""The notes on times: how and where compared times were taken, and which times and ratios are not known well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from ..results.comparison import Comparison
from ..results.report import Report
from ..times.measurement import Measurement
from ..times.ratio import Ratio
from ..trace.layer_table import is_by_layer
from ..trace.table import Table
from .grids import list_records
from .time_grids import list_timed
from .values import share_text

__all__ = ["describe_gap", "describe_origins", "describe_ratios"]


class _Pair(NamedTuple):
    """A time of the reference, that of another model, and their ratio."""

    metric: str
    model: str
    reference: Measurement
    other: Measurement
    ratio: Ratio


def describe_ratios(comparison: Comparison) -> Iterator[str]:
    """Yield notes on the sampling of compared times, the meaning of the brackets, and ratios that are not known well.

    The sampling and the noise are read from the first time that was measured of two models.
    """
    pairs = list(_list_pairs(comparison))
    reused = dict.fromkeys(pair.model for pair in pairs if pair.other == pair.reference)
    if reused:
        yield f"{', '.join(reused)}: the times are those of {comparison.reference.name}, not measured again."
    measured = [pair for pair in pairs if pair.other != pair.reference]
    first = [pair for pair in measured if pair.reference is measured[0].reference]
    if not first:
        return
    are_paired = all(pair.reference.is_paired_with(pair.other) for pair in first)
    yield _describe_sampling(first, are_paired)
    if any(not (pair.ratio.is_range or pair.ratio.is_real) for pair in measured):
        yield "≈ marks a ratio whose interval holds 1: no real difference was found."
    if are_paired and _ran_in_several_processes(first):
        yield (
            "Each model was measured in a process of its own. Processes differ by some per cent even of equal models, "
            "and the interval does not show that."
        )
    for pair in first:
        name = f"{pair.metric} of {pair.model}" if len(first) > 1 else pair.metric
        if pair.ratio.warning:
            yield f"{name}: {pair.ratio.warning}"
        elif pair.ratio.is_range:
            yield f"{name}: too few samples for an interval of the ratio: brackets hold its {pair.ratio.interval_name}"


def _describe_sampling(pairs: Sequence[_Pair], are_paired: bool) -> str:
    """Return how the times of a metric were measured, and what the brackets behind their ratios hold."""
    order = "in turn" if are_paired else "one after the other"
    interval = f"{100 * pairs[0].reference.confidence:.4g} % confidence interval"
    if all(pair.ratio.is_range for pair in pairs):
        interval = "smallest and largest value"
    return f"Times are medians, measured {order}; brackets hold the {interval} of the ratio."


def _ran_in_several_processes(pairs: Sequence[_Pair]) -> bool:
    conditions = [time.conditions for time in (pairs[0].reference, *(pair.other for pair in pairs))]
    return len({"" if condition is None else condition.process for condition in conditions}) > 1


def _list_pairs(comparison: Comparison) -> Iterator[_Pair]:
    """Yield the times that have a ratio: of each that the reference has several samples of, those of other models."""
    for record in list_records(comparison.reference, Measurement):
        if len(record.value.samples) < 2 or record.comparative.is_difference:
            continue
        for report in comparison.others:
            other = report.statuses.get(record.key)
            if other is not None and isinstance(other.value, Measurement) and other.base_unit == record.base_unit:
                ratio = Ratio.of(record.value, other.value)
                yield _Pair(record.friendly_name, report.name, record.value, other.value, ratio)


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


# The times of layers --------------------------------------------------------------------------------------------------

#: The times of layers may add up to the model's time but for this part of it; more is told.
_GAP = 0.1


def describe_gap(table: Table) -> str:
    """Say which part of the model's time the own times of its layers add up to, if that is far from all of it.

    Each is the median of its own samples, so that they never add up exactly; a large gap comes from noise.
    """
    whole = next((row.get("forward_seconds") for row in table if row.get("path") == ""), None)
    timed = [row for row in table if row.get("calls") != 0]  # the time of others is in the layers around them
    if not is_by_layer(table) or not whole or any(row.get("own_forward_seconds") is None for row in timed):
        return ""
    share = sum(row.get("own_forward_seconds") or 0.0 for row in table) / whole
    if abs(share - 1) < _GAP:
        return ""
    return (
        f"noisy: the own times of layers, a median each, add up to {share_text(share)} of the model's; measure longer"
    )
