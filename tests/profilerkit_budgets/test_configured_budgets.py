"""Budgets and measuring options of ``pyproject.toml``, for ``profilerkit check`` and for the pytest fixture."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from profilerkit.cli import cli

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.heavy

NETWORK = """
import torch

def build():
    return torch.nn.Linear(4, 8)
"""
TABLE = """
[tool.profilerkit]
input-shape = "4"
max-seconds = 0.02

[tool.profilerkit.check]
budget = "budget.toml"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a network of 32 MACs and 40 parameters."""
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(NETWORK)
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (tmp_path / "budget.toml").write_text("macs = '<= 31'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_needs_nothing_but_the_model(project: Path) -> None:
    result = CliRunner().invoke(cli, ["check", "net.py:build"])
    assert result.exit_code == 1
    assert "macs <= 31 failed" in result.output


def test_the_budget_is_found_from_a_folder_inside(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "inner").mkdir()
    monkeypatch.chdir(project / "inner")
    result = CliRunner().invoke(cli, ["check", "../net.py:build"])
    assert "macs <= 31 failed" in result.output


def test_limits_may_stand_in_the_file_itself(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.profilerkit.check]\nlimit = ['total_params <= 40', 'macs <= 32']\n")
    result = CliRunner().invoke(cli, ["check", "net.py:build", "--input-shape", "4"])
    assert result.exit_code == 0, result.output
    assert "2 limits: 2 passed" in result.output


TEST = """
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor

model = FakeModel(layers=[FakeLayer("first", params=10, macs=32)])
given = {"inputs": FakeTensor((1, 3)), "backend": FakeBackend()}

def test_of_the_project(budget):
    budget(model, **given)

def test_of_its_own(budget):
    report = budget(model, execution_time="<= 100 s", **given)
    assert report.arguments["max_seconds"] == "0.02"
    report = budget(model, execution_time="<= 100 s", max_seconds=0.01, **given)
    assert report.arguments["max_seconds"] == "0.01"
"""


def run_tests(pytester: pytest.Pytester, table: str) -> pytest.RunResult:
    pytester.makepyprojecttoml(table)
    (pytester.path / "budget.toml").write_text("macs = '<= 31'")
    pytester.makepyfile(test_cost=TEST)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly")


def test_the_fixture_reads_it_and_the_test_wins(pytester: pytest.Pytester) -> None:
    """Without limits of its own a test has those of the project, and its options win over those of the project."""
    result = run_tests(pytester, TABLE)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*macs <= 31 failed*"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("budgets = 'budget.toml'", "has 'budgets', which is no key; there are, nearest first: budget, "),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("budget = 5", "BudgetError: cannot read the budget 5: No such file"),
                ("budget = ['a.toml']", "budget = ['a.toml'] is no single value; --budget takes one"),
                ("limit = [5]", "is no limit; write a comparison"),
            )
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_an_error_of_the_test(pytester: pytest.Pytester, line: str, words: str) -> None:
    result = run_tests(pytester, TABLE.replace('budget = "budget.toml"', line))
    result.assert_outcomes(passed=1, failed=1)
    assert words in result.stdout.str()
