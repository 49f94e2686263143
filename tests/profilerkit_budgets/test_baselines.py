"""Baselines in files, and the conditions that they were measured under."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drawn_reports import TEACHER, record

from profilerkit import BudgetError, Completeness, Measurement, Report
from profilerkit.results.saving import reseal
from profilerkit_budgets import Budget, Verdict, check
from profilerkit_budgets.baselines import describe_other_conditions, read_baseline, record_baseline, require_same_call
from profilerkit_budgets.forms import FORMS

HERE = replace(TEACHER, environment={"host": "a", "cpu": "X1", "torch": "2.13.0"}, created="2026-11-20T10:00:00+00:00")
THERE = replace(HERE, environment={"host": "b", "cpu": "Y2", "torch": "2.13.0", "os": "Linux"})


def test_a_baseline_is_recorded_and_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "net.json"
    line = record_baseline(HERE, path)
    assert "for Teacher: " in line and "macs 192" in line
    assert line.endswith("(cpu X1, torch 2.13.0)"), "and not the name of the host"
    assert Report.load(path).environment == HERE.environment
    assert read_baseline(path, "x").environment == HERE.environment


def test_a_report_with_a_failed_metric_takes_no_baselines_place(tmp_path: Path) -> None:
    """Else the values to compare with would be lost, and the check of a limit that refers to one with them."""
    path = tmp_path / "net.json"
    record_baseline(HERE, path)
    broken = replace(
        HERE.statuses["macs"], value=None, completeness=Completeness.FAILED, missing=("ValueError: no",), bounds=None
    )
    with pytest.raises(BudgetError, match=r"^nothing is recorded: macs of Teacher failed: ValueError: no$"):
        record_baseline(replace(HERE, statuses={**HERE.statuses, "macs": broken}), path)
    assert Report.load(path)["macs"] == 192


def test_what_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"there is no baseline .*none.json; record one with check --update"):
        read_baseline(tmp_path / "none.json", "check --update")
    (tmp_path / "no.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BudgetError, match=r"no.json cannot be read: .*; record it again with x"):
        read_baseline(tmp_path / "no.json", "x")


def test_other_conditions_are_named() -> None:
    assert describe_other_conditions(HERE, HERE) == ""
    assert describe_other_conditions(THERE, HERE) == "the baseline of 2026-11-20 was measured with cpu X1, now Y2"


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


ASKED = replace(
    TEACHER,
    inputs="ModelInputs(Tensor(1, 3, 48, 48))",
    input_dtypes="float32",
    arguments={"optimizer": "adam", "call": "<function f at 0x7f00>"},
)
OTHERWISE: dict[str, tuple[dict[str, Any], str]] = {
    "inputs": (
        {"inputs": "ModelInputs(Tensor(1, 3, 32, 32))"},
        r"inputs: ModelInputs\(Tensor\(1, 3, 48, 48\)\) in the baseline, now ModelInputs\(Tensor\(1, 3, 32, 32\)\)",
    ),
    "dtype": ({"input_dtypes": "int64"}, "dtypes of the inputs: float32 in the baseline, now int64"),
    "mode": ({"arguments": {**ASKED.arguments, "mode": "xla"}}, "mode: not given in the baseline, now xla"),
    "optimizer": (
        {"arguments": {"call": "<function f at 0x7f01>"}},
        "optimizer: adam in the baseline, now not given",
    ),
    "call": (
        {"arguments": {**ASKED.arguments, "call": "<function g at 0x7f00>"}},
        "call: <function f> in the baseline, now <function g>",
    ),
}


@pytest.mark.parametrize("change", OTHERWISE)
def test_a_baseline_of_another_call_is_an_error_that_names_both(change: str) -> None:
    changed, message = OTHERWISE[change]
    with pytest.raises(BudgetError, match=rf"baseline Teacher is of another call.*{message}; give the same inputs"):
        check(replace(ASKED, **changed), Budget.of({"macs": "<= 1x"}), ASKED)
    (finding,) = check(replace(ASKED, **changed), Budget.of({"macs": "<= 1 M"}), ASKED)
    assert finding.verdict is Verdict.PASSED, "what is not relative asks for no baseline"


def test_what_does_not_change_a_value_may_differ() -> None:
    """How long is measured, the address of a function, and inputs where one report needed none."""
    arguments = {**ASKED.arguments, "call": "<function f at 0x7f99>", "num_iters": "30", "max_seconds": "9"}
    assert require_same_call(replace(ASKED, arguments=arguments), ASKED) == ""
    assert require_same_call(replace(ASKED, inputs="", input_dtypes=""), ASKED) == ""
    assert require_same_call(ASKED, replace(ASKED, inputs="", input_dtypes="")) == ""


def test_a_baseline_of_an_early_version_says_what_it_lacks(tmp_path: Path) -> None:
    """Its file has no dtypes: it is read, the rest is compared, and the finding says what could not be."""
    ASKED.save(tmp_path / "b.json")
    content = json.loads((tmp_path / "b.json").read_text(encoding="utf-8"))
    del content["input_dtypes"]
    (tmp_path / "b.json").write_text(json.dumps(reseal(content)), encoding="utf-8")
    old = read_baseline(tmp_path / "b.json", "x")
    assert (old.inputs, old.input_dtypes) == (ASKED.inputs, "")
    (finding,) = check(ASKED, Budget.of({"macs": "<= 1x"}), old)
    assert finding.note == "the baseline does not say the dtypes of its inputs; record it again"
    with pytest.raises(BudgetError, match="inputs: ModelInputs"):
        check(replace(ASKED, inputs="ModelInputs(Tensor(2, 3))"), Budget.of({"macs": "<= 1x"}), old)


@pytest.mark.parametrize("form", FORMS)
def test_the_note_on_a_value_is_told(form: str) -> None:
    noted = replace(ASKED.status("macs"), note="without an optimizer's state")
    report = replace(ASKED, statuses={**ASKED.statuses, "macs": noted})
    findings = check(report, Budget.of({"macs": ["<= 1 M", "<= 1x"], "total_params": "<= 1 M"}), ASKED)
    assert FORMS[form](findings, "net").count("without an optimizer") == 2
