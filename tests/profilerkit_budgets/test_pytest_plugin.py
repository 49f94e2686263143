"""The fixture ``budget``, in a project of its own."""

from __future__ import annotations

import json
import platform
import sys

import pytest
from time_limits import run_program, run_python

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


SEVERAL = """
def test_kept(budget):
    limits = {"macs": "<= 300", "total_params": ["<= 30", ">= 30"]}
    report = budget(model(), **limits, layers={"sec*": {"macs": "<= 200"}}, **given)
    assert report["macs"] == 300

def test_broken(budget):
    budget(model(), macs="<= 299", **given)

def test_retried(budget):
    budget(model(), macs="<= 300", retries=-1, **given)
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[pytest.LineMatcher, str]:
    """Run several tests of a project at once, as pytest takes seconds to start; what it prints, and its JUnit file."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "test_it.py").write_text(f"{MODEL}{SEVERAL}", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--junitxml=junit.xml"]
    done = run_program(command, check=False, cwd=folder)
    return pytest.LineMatcher(done.stdout.splitlines()), (folder / "junit.xml").read_text(encoding="utf-8")


def test_a_budget_that_is_kept(several: tuple[pytest.LineMatcher, str]) -> None:
    several[0].fnmatch_lines(["PASSED test_it.py::test_kept", "*2 failed, 1 passed*"])


def test_a_budget_that_is_not_kept_fails_the_test_and_names_the_layers(several: tuple[pytest.LineMatcher, str]) -> None:
    lines, _ = several
    lines.fnmatch_lines(
        ["Budget of FakeModel", "*FAILED*macs <= 299*300 MACs*", "*second (FakeLayer): 200 MACs, 66.67 %"]
    )
    lines.fnmatch_lines(["____* test_broken *", "macs <= 299 failed, 0.3344 % over the limit: 300 MACs*"])
    assert "def check_budget" not in lines.str(), "where our code stands helps nobody"


def test_retries_that_are_none_are_an_error(several: tuple[pytest.LineMatcher, str]) -> None:
    several[0].fnmatch_lines(["*retries=-1: give how often to measure again, zero or more times*"])


def test_what_was_measured_is_in_the_junit_file(several: tuple[pytest.LineMatcher, str]) -> None:
    assert 'name="macs: macs &lt;= 300" value="300 MACs, 100 % of the limit"' in several[1]


@pytest.mark.slow
def test_an_error_shows_the_frames_of_the_test_and_of_the_model_alone(pytester: pytest.Pytester) -> None:
    result = outcome(pytester, 'budget(model(), macs="5 G", **given)')
    result.stdout.fnmatch_lines([">*budget(model(), macs=*", "E *BudgetError: macs = '5 G' is no limit*"])
    assert "profilerkit/" not in result.stdout.str().replace("\\", "/")
    body = """
torch = pytest.importorskip("torch")
class Fails(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError("in the model")  # its own line
budget(Fails(), torch.ones(1, 2), macs="<= 1", strict=True)
"""
    shown = outcome(pytester, body).stdout.str().replace("\\", "/")
    assert "FAILED" in shown or "skipped" in shown
    assert "profilerkit/" not in shown


@pytest.mark.slow
def test_a_budget_beside_a_baseline(pytester: pytest.Pytester) -> None:
    outcome(pytester, 'budget(model(40), macs="<= 0.8x", baseline=model(), **given)').assert_outcomes(passed=1)
    outcome(pytester, 'budget(model(), macs="<= 1x", baseline=model(40), **given)').assert_outcomes(failed=1)
    body = """
saved = profile(model(40), **given, metrics=["macs"])
budget(saved, macs="<= 0.8x", baseline=profile(model(), **given, metrics=["macs"]))
budget(model(), macs="<= 2x", baseline=saved, **given)
"""
    outcome(pytester, body).assert_outcomes(passed=1)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_limit_that_is_none_is_an_error(pytester: pytest.Pytester) -> None:
    result = outcome(pytester, 'budget(model(), macs="5 G", **given)')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*BudgetError: macs = '5 G' is no limit; write a comparison*"])
    result = outcome(pytester, "budget(model(), **given)")
    result.stdout.fnmatch_lines(["*BudgetError: the budget has no limits: give some to budget*"])


@pytest.mark.slow
def test_junit_and_warnings_as_errors_go_together(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f'{MODEL}\n\ndef test_cost(budget):\n    budget(model(), macs="<= 300", **given)\n')
    for family in ("xunit2", "xunit1"):
        options = ("--junitxml=junit.xml", "-o", f"junit_family={family}", "-W", "error", "-p", "no:cacheprovider")
        pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)


RECORDED = """
budget(model({first}), macs="<= 1.02x", baseline="budgets/net.json", **given)
"""


@pytest.mark.slow
def test_a_baseline_is_recorded_with_the_machine_and_read_again(pytester: pytest.Pytester) -> None:
    result = outcome(pytester, RECORDED.format(first=100))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no baseline *net.json; record one with pytest --budget-update"])
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--budget-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["budget: recorded *net.json for FakeModel: macs 300 MACs (*python *"])
    saved = json.loads((pytester.path / "budgets" / "net.json").read_text(encoding="utf-8"))
    assert saved["environment"]["python"] == platform.python_version()
    outcome(pytester, RECORDED.format(first=106)).assert_outcomes(passed=1)  # 306 of 300
    result = outcome(pytester, RECORDED.format(first=160))  # 360 of 300 is 1.2, and 1.2 / 1.02 is 1.176
    result.stdout.fnmatch_lines(["macs <= 1.02x failed, 17.65 % over the limit: 1.2x (360 MACs after 300 MACs)*"])


@pytest.mark.slow
def test_absolute_limits_are_checked_where_a_baseline_is_recorded(pytester: pytest.Pytester) -> None:
    body = 'budget(model(), macs=["<= 1.02x", "<= 200"], baseline="net.json", **given)'
    pytester.makepyfile(f"{MODEL}\n\ndef test_cost(budget):\n    {body}\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--budget-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["macs <= 200 failed, 50 % over the limit*"])
    (pytester.path / "net.json").write_text("[]", encoding="utf-8")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["*the baseline *net.json cannot be read: *; record it again with pytest --budget*"])


def test_pytest_loads_nothing_of_the_core_with_the_plugin() -> None:
    """Every project that has profilerkit installed waits for it, and coverage misses what was imported before."""
    code = "import sys, profilerkit_budgets.pytest_plugin; print(*sorted(sys.modules))"
    done = run_python(code)
    loaded = {name for name in done.stdout.split() if name.partition(".")[0] == "profilerkit"}
    assert loaded == {"profilerkit", *(f"profilerkit.process{name}" for name in ("", ".lazy"))}
