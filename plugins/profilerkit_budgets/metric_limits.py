"""Limits of metrics: absolute ones, and ratios to a baseline."""

from __future__ import annotations

from dataclasses import replace

from profilerkit.count_text import format_count
from profilerkit.errors import BudgetError, by_likeness
from profilerkit.hooks.offers import name_of_metric
from profilerkit.piping.outcome import Completeness, is_number
from profilerkit.piping.quantity import format_number
from profilerkit.render.values import KINDS
from profilerkit.results.report import Report, StatusRecord
from profilerkit.times.measurement import Measurement
from profilerkit.times.ratio import Ratio
from profilerkit.trace.bounds import Bounds, Sign

from .baselines import describe_other_conditions, require_baseline
from .findings import Compared, Finding, Verdict, divide, judge
from .limits import Limit
from .responsible import list_responsible


def check_metric(report: Report, limit: Limit, baseline: Report | None) -> Finding:
    """Return the finding of the limit of a metric.

    Raises `BudgetError` for a metric that the report does not have, a limit in another unit, a relative limit without a
    baseline, and a baseline without a complete value.
    """
    reference = require_baseline(limit, baseline) if limit.relative else None
    limit = _use_name_of_report(limit, report)
    record = report.status(limit.key)
    bound = limit.bound(record.base_unit)  # an error in the limit comes before any problem of the value
    number = record.number
    if number is None:
        return Finding(limit, limit.key, Verdict.FAILED, _explain_missing_number(record))
    compared = _read_value(record, number, bound) if reference is None else _compare(report, limit, reference)
    missing = ", ".join(record.missing) if record.completeness is Completeness.PARTIAL else ""
    finding = judge(limit, limit.key, bound, compared, missing)
    if finding.verdict is Verdict.PASSED:
        return finding
    return replace(finding, responsible=list_responsible(report, limit.key, reference))


def _read_value(record: StatusRecord, number: float, bound: float) -> Compared:
    """Return the value of a metric; that of a measurement is its median."""
    ends = _open_ends(number, number, record.sign) if record.ends is None else record.ends
    return Compared(number, ends, record.sign, f"{record.shown}{_write_share(number, bound)}")


def _use_name_of_report(limit: Limit, report: Report) -> Limit:
    """Return a limit whose key is a status key of the report; another name of the metric is replaced by the key."""
    if limit.key not in report.statuses:
        limit = replace(limit, key=name_of_metric(limit.key))
    if limit.key not in report.statuses:
        nearest = ", ".join(by_likeness(limit.key, report.statuses))
        raise BudgetError(f"{limit}: the report of {report.name} has no {limit.key}; it has, nearest first: {nearest}")
    return limit


def _explain_missing_number(record: StatusRecord) -> str:
    """Return the reason why a value that is no number can neither keep nor break a limit."""
    if record.value is None:
        state = "no value" if record.completeness is Completeness.FAILED else record.completeness.value
        return f"{state}: {'; '.join(record.missing)}"
    return f"{record.key} is no number"


def _write_share(value: float, bound: float) -> str:
    """Return the share of a limit that a value is, or how many times the limit; empty for a limit of 0 or less.

    >>> _write_share(3, 4), _write_share(5, 4), _write_share(10, 4)
    (', 75 % of the limit', ', 125 % of the limit', ', 2.5 times the limit')
    """
    if bound <= 0:
        return ""
    share = value / bound
    written = f"{format_number(share)} times" if share > 2 else f"{format_number(100 * share)} % of"
    return f", {written} the limit"


# Ratios to a baseline -------------------------------------------------------------------------------------------------


def _compare(report: Report, limit: Limit, baseline: Report) -> Compared:
    """Return the ratio of a value to the value of the baseline.

    The interval of a measured ratio is open where the sign of the value says so: an energy without the energy of the
    memory has no upper end.
    """
    record, reference = report.status(limit.key), _require_reference(limit, baseline)
    if record.base_unit != reference.base_unit:
        raise BudgetError(
            f"{limit}: {limit.key} is in {record.base_unit!r}, and in {reference.base_unit!r} in the baseline "
            f"{baseline.name}, which has no ratio; record the baseline again"
        )
    both = f"({record.shown} after {reference.shown})"
    ends: Bounds | None
    if not isinstance(record.value, Measurement) and not isinstance(reference.value, Measurement):
        count = float(record.value)
        ends = Bounds(count, count)
        if record.sign:
            ends = record.ends or Bounds()
        return divide(count, ends, float(reference.value), both)
    ratio = Ratio.of(_read_number(reference), _read_number(record))
    text = f"{_write_interval(ratio)} {both}"
    if not ratio.paired:
        conditions = describe_other_conditions(report, baseline)
        text += f", not measured in turn; {conditions}" if conditions else ", not measured in turn"
    ends = None if ratio.is_range else _open_ends(ratio.low, ratio.high, record.sign)
    return Compared(ratio.value, ends, record.sign, text)


def _read_number(record: StatusRecord) -> Measurement | float:
    return record.value if isinstance(record.value, Measurement) else float(record.value)


def _require_reference(limit: Limit, baseline: Report) -> StatusRecord:
    """Return the metric of the baseline; raises `BudgetError` if its value is missing, or not complete."""
    reference = baseline.statuses.get(limit.key)
    if reference is None or not is_number(reference.value):
        raise BudgetError(
            f"{limit}: the baseline {baseline.name} has no value of {limit.key} to compare with; make it again with "
            "that metric"
        )
    if reference.completeness is Completeness.PARTIAL:
        raise BudgetError(
            f"{limit}: {limit.key} of the baseline {baseline.name} is a value of which not all is known "
            f"({KINDS[reference.sign]}), which has no ratio; give a baseline that is counted completely"
        )
    return reference


def _open_ends(low: float, high: float, sign: Sign) -> Bounds:
    """Return the two ends of a measured value without those that its sign leaves open."""
    return Bounds(low if sign in (Sign.EXACT, Sign.LOWER) else None, high if sign in (Sign.EXACT, Sign.UPPER) else None)


def _write_interval(ratio: Ratio) -> str:
    value, low, high = map(format_number, (ratio.value, ratio.low, ratio.high))
    if not ratio.is_range:
        return f"{value}x [{low}, {high}]"
    if ratio.is_single:
        return f"{value}x [1 sample]"
    pairs = f", {format_count(ratio.pairs, 'pair')}" if ratio.pairs else ""
    return f"{value}x [{low} to {high}{pairs}]"
