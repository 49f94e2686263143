"""Baselines in files, and the conditions that they were measured under."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from drawn_reports import TEACHER, record

from profilerkit import BudgetError, Measurement, Report
from profilerkit.budgets import Budget, Verdict, check
from profilerkit.budgets.baselines import read_baseline, record_baseline, under_other_conditions

HERE = replace(TEACHER, environment={"host": "a", "cpu": "X1", "torch": "2.13.0"}, created="2026-11-20T10:00:00+00:00")
THERE = replace(HERE, environment={"host": "b", "cpu": "Y2", "torch": "2.13.0", "os": "Linux"})


def test_a_baseline_is_recorded_and_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "net.json"
    line = record_baseline(HERE, path)
    assert "for Teacher: " in line and "macs 192" in line
    assert line.endswith("(cpu X1, torch 2.13.0)"), "and not the name of the host"
    assert Report.load(path).environment == HERE.environment
    assert read_baseline(path, "x").environment == HERE.environment


def test_what_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"there is no baseline .*none.json; record one with check --update"):
        read_baseline(tmp_path / "none.json", "check --update")
    (tmp_path / "no.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BudgetError, match=r"no.json cannot be read: .*; record it again with x"):
        read_baseline(tmp_path / "no.json", "x")


def test_other_conditions_are_named() -> None:
    assert under_other_conditions(HERE, HERE) == ""
    assert under_other_conditions(THERE, HERE) == "the baseline of 2026-11-20 was measured with cpu X1, now Y2"


def test_a_ratio_of_times_says_that_the_baseline_is_of_another_machine() -> None:
    then, now = (
        replace(
            report,
            statuses={"execution_time": record("execution_time", Measurement((seconds, 1.01 * seconds) * 4), "t")},
        )
        for report, seconds in ((HERE, 1.0), (THERE, 1.5))
    )
    (finding,) = check(now, Budget.of({"execution_time": "<= 1.1x"}), then)
    assert "; the baseline of 2026-11-20 was measured with cpu X1, now Y2" in finding.detail
    assert finding.verdict is Verdict.FAILED
