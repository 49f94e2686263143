"""Checking a report against a budget: which limits are kept, broken or uncertain.

If only times break a budget, a model may be measured again: a busy machine may change a time, but not a count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from profilerkit.error_text import shown
from profilerkit.errors import BudgetError
from profilerkit.hooks.offers import list_status_keys, name_of_metric
from profilerkit.piping.status import Metric
from profilerkit.results.report import Report
from profilerkit.times.measurement import Measurement

from .baselines import require_same_call
from .findings import Finding, Verdict
from .layer_limits import check_layers, require_column_of_layers
from .limits import Budget
from .metric_limits import check_metric


def check(report: Report, budget: Budget, baseline: Report | None = None) -> list[Finding]:
    """Return a finding for each limit, and for each layer that a layer limit matches.

    A count that is not fully known has two ends: its limit is kept or broken only if both ends agree, and uncertain
    otherwise, with the reason. A value that could not be computed proves nothing: its limit fails. A ratio of measured
    values fails if its whole confidence interval is beyond the limit, and is uncertain if the interval contains the
    limit, or if there are too few samples for an interval.
    Raises `BudgetError` for a limit that cannot be checked: an unknown metric, another unit, a relative limit without a
    ``baseline``, or with a baseline of other inputs or options, a pattern that matches no layer.
    """
    _require_types(report, budget, baseline)
    remark = require_same_call(report, baseline) if budget.needs_baseline and baseline is not None else ""
    findings: list[Finding] = []
    for limit in budget.limits:
        if limit.pattern is None:
            findings.append(check_metric(report, limit, baseline))
        else:
            findings += check_layers(report, limit, baseline)
    return [_add_note(finding, report, remark) for finding in findings]


def require_checkable(budget: Budget) -> None:
    """Raise `BudgetError` for a limit that fits no report, before anything is measured.

    Such a limit has another unit than its metric, or is of layers and of a metric that layers do not have.
    """
    units = {offer.item.NAME: offer.item.UNIT for offer in list_status_keys() if issubclass(offer.item, Metric)}
    for limit in budget.limits:
        if limit.pattern is not None:
            require_column_of_layers(limit)
        elif units.get(name_of_metric(limit.key)):  # a function may say the unit of its own metric later
            limit.bound(units[name_of_metric(limit.key)])


def _require_types(report: Report, budget: Budget, baseline: Report | None) -> None:
    for name, value, kind in (("report", report, Report), ("budget", budget, Budget), ("baseline", baseline, Report)):
        if not (isinstance(value, kind) or (name == "baseline" and value is None)):
            raise BudgetError(f"{name}={shown(value)}: give a {kind.__name__}")


def _add_note(finding: Finding, report: Report, remark: str) -> Finding:
    """Return a finding with the note of its metric, and the remark on the baseline of a relative limit."""
    record = report.statuses.get(finding.subject) if finding.limit.pattern is None else None
    notes = (record.note if record is not None else "", remark if finding.limit.relative else "")
    return replace(finding, note="; ".join(filter(None, notes)))


# Measuring again ------------------------------------------------------------------------------------------------------


def select_broken(findings: Sequence[Finding], strict: bool = False) -> list[Finding]:
    """Return the findings that break a budget: failed findings and, if ``strict``, uncertain ones."""
    verdicts = {Verdict.FAILED, Verdict.UNCERTAIN} if strict else {Verdict.FAILED}
    return [finding for finding in findings if finding.verdict in verdicts]


def check_with_retries(
    measure: Callable[[], tuple[Report, Report | None]], budget: Budget, retries: int = 0, strict: bool = False
) -> tuple[Report, list[Finding]]:
    """Measure and check; if only limits of measured values are broken, do so again, at most ``retries`` times.

    The first measurement that keeps the budget counts, otherwise the last. Findings of later measurements name its
    number. ``measure`` returns the report and the baseline. Raises the errors of `check`.
    """
    for attempt in range(retries + 1):
        report, baseline = measure()
        findings = check(report, budget, baseline)
        if attempt:
            findings = [_name_attempt(finding, report, attempt, retries) for finding in findings]
        failing = select_broken(findings, strict)
        if not failing or not all(_is_measured(finding, report) for finding in failing):
            break
    return report, findings


def _is_measured(finding: Finding, report: Report) -> bool:
    record = report.statuses.get(finding.limit.key)
    return finding.limit.pattern is None and record is not None and isinstance(record.value, Measurement)


def _name_attempt(finding: Finding, report: Report, attempt: int, retries: int) -> Finding:
    if not _is_measured(finding, report):
        return finding
    return replace(finding, detail=f"{finding.detail}, in measurement {attempt + 1} of at most {retries + 1}")
