"""The fixture ``budget``, in a project of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

MODEL = """
import pytest
from profilerkit import compare, profile
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor

def model(macs=100):
    return FakeModel(layers=[FakeLayer("first", params=10, macs=macs), FakeLayer("second", params=20, macs=200)])

given = {"inputs": FakeTensor((1, 3)), "backend": FakeBackend()}
"""


def outcome(pytester: pytest.Pytester, body: str) -> pytest.RunResult:
    lines = "\n    ".join(body.strip().splitlines())
    pytester.makepyfile(f"{MODEL}\n\ndef test_cost(budget):\n    {lines}\n")
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly")


def test_a_budget_that_is_kept(pytester: pytest.Pytester) -> None:
    body = """
report = budget(model(), macs="<= 300", total_params=["<= 30", ">= 30"], layers={"sec*": {"macs": "<= 200"}}, **given)
assert report["macs"] == 300
"""
    outcome(pytester, body).assert_outcomes(passed=1)


def test_a_budget_that_is_not_kept_fails_the_test_and_names_the_layers(pytester: pytest.Pytester) -> None:
    result = outcome(pytester, 'budget(model(), macs="<= 299", **given)')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["Budget of FakeModel", "*FAILED*macs <= 299*300 MACs*", "*second (FakeLayer): 200 MACs, 66.67 %"]
    )
    assert "def check_budget" not in result.stdout.str(), "where our code stands helps nobody"


def test_a_budget_beside_a_baseline(pytester: pytest.Pytester) -> None:
    outcome(pytester, 'budget(model(40), macs="<= 0.8x", baseline=model(), **given)').assert_outcomes(passed=1)
    outcome(pytester, 'budget(model(), macs="<= 1x", baseline=model(40), **given)').assert_outcomes(failed=1)
    body = """
saved = profile(model(40), **given, metrics=["macs"])
budget(saved, macs="<= 0.8x", baseline=profile(model(), **given, metrics=["macs"]))
budget(model(), macs="<= 2x", baseline=saved, **given)
"""
    outcome(pytester, body).assert_outcomes(passed=1)


def test_a_ratio_that_is_not_known_well_enough(pytester: pytest.Pytester) -> None:
    """The same samples of 1 and 3 seconds in other orders: the ratio is 1, and may be anything from 1/3 to 3."""
    body = """
from dataclasses import replace
from profilerkit import Measurement
first, second = (profile(model(), **given, metrics=["execution_time"], num_iters=8, warmup=0) for _ in range(2))
def timed(report, samples):
    record = replace(report.status("execution_time"), value=Measurement(samples, session=1))
    return replace(report, statuses={"execution_time": record})
pair = timed(first, (1.0, 3.0) * 4), timed(second, (3.0, 1.0) * 4)
budget(pair[1], execution_time="<= 1.1x", baseline=pair[0])
with pytest.raises(pytest.fail.Exception, match="uncertain"):
    budget(pair[1], execution_time="<= 1.1x", baseline=pair[0], strict=True)
"""
    outcome(pytester, body).assert_outcomes(passed=1)


def test_a_limit_that_is_none_is_an_error(pytester: pytest.Pytester) -> None:
    result = outcome(pytester, 'budget(model(), macs="5 G", **given)')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*BudgetError: macs = '5 G' is no limit; write a comparison*"])
    result = outcome(pytester, "budget(model(), **given)")
    result.stdout.fnmatch_lines(["*BudgetError: the budget {} has no limits*"])


def test_what_was_measured_is_in_the_junit_file(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f'{MODEL}\n\ndef test_cost(budget):\n    budget(model(), macs="<= 300", **given)\n')
    pytester.runpytest_subprocess("--junitxml=junit.xml", "-p", "no:cacheprovider").assert_outcomes(passed=1)
    written = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert 'name="macs: macs &lt;= 300" value="300 MACs, 100 % of the limit"' in written
