"""Measuring again where only times break a budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from drawn_reports import TEACHER, record

from profilerkit import Measurement, Report
from profilerkit_budgets import Budget
from profilerkit_budgets.checking import check_with_retries, select_broken


def make_timed(seconds: float, macs: int = 10) -> Report:
    statuses = {
        "execution_time": record("execution_time", Measurement((seconds,) * 8), f"{seconds} s"),
        "macs": record("macs", macs, str(macs)),
    }
    return replace(TEACHER, statuses=statuses)


def runs(*reports: Report) -> Iterator[tuple[Report, None]]:
    return iter([(report, None) for report in reports])


def test_the_first_measurement_that_keeps_the_budget_counts() -> None:
    source = runs(make_timed(3.0), make_timed(1.0), make_timed(9.0))
    report, findings = check_with_retries(lambda: next(source), Budget.of({"execution_time": "<= 2"}), retries=2)
    assert (float(report["execution_time"]), select_broken(findings)) == (1.0, [])
    assert findings[0].detail.endswith("in measurement 2 of at most 3")
    assert next(source)[0]["execution_time"].median == 9.0, "it was not measured a third time"


def test_the_last_measurement_counts_where_none_keeps_the_budget() -> None:
    source = runs(make_timed(3.0), make_timed(5.0))
    report, findings = check_with_retries(lambda: next(source), Budget.of({"execution_time": "<= 2"}), retries=1)
    assert (float(report["execution_time"]), len(select_broken(findings))) == (5.0, 1)


def test_a_count_is_not_measured_again() -> None:
    source = runs(make_timed(3.0), make_timed(1.0))
    budget = Budget.of({"execution_time": "<= 2", "macs": "<= 9"})
    report, findings = check_with_retries(lambda: next(source), budget, retries=1)
    assert (float(report["execution_time"]), len(select_broken(findings))) == (3.0, 2)
    assert all("measurement" not in finding.detail for finding in findings)
