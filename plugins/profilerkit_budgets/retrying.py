"""Measuring again where only times break a budget: a time may be long because the machine was busy, a count may not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from profilerkit.results.report import Report
from profilerkit.times.measurement import Measurement

from .checking import Finding, Verdict, check
from .limits import Budget

__all__ = ["check_with_retries", "select_broken"]


def select_broken(findings: Sequence[Finding], strict: bool = False) -> list[Finding]:
    """Return the findings that break a budget: those that failed and, if ``strict``, those that are uncertain."""
    verdicts = {Verdict.FAILED, Verdict.UNCERTAIN} if strict else {Verdict.FAILED}
    return [finding for finding in findings if finding.verdict in verdicts]


def check_with_retries(
    measure: Callable[[], tuple[Report, Report | None]], budget: Budget, retries: int = 0, strict: bool = False
) -> tuple[Report, list[Finding]]:
    """Measure and check; if only limits of measured values are broken, do so again, at most ``retries`` times.

    The first measurement that keeps the budget counts, otherwise the last. A finding of a later one says which it was.
    ``measure`` returns the report and the baseline. Raises what `check` raises.
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
