"""The script that runs the tests on other releases: what it reads, decides and writes."""

from __future__ import annotations

import re
import shutil
import tomllib

import pytest
from releases import (
    COLUMNS,
    SUITES,
    find_older,
    merge_row,
    read_releases,
    read_rows,
)
from source_tree import ROOT
from time_limits import run_program


def row(framework: str, release: str, python: str = "3.11", off: str = "") -> dict[str, str]:
    return dict(zip(COLUMNS, (framework, release, python, "10", "0", "1", off), strict=True))


def test_an_older_release_than_the_newest_listed_is_an_error_unless_its_python_is_newer() -> None:
    rows = [row("jax", "0.10.2"), row("jax", "0.12.0", "3.12"), row("torch", "2.15.0")]
    assert find_older("jax", "0.12.0", "3.12", rows) == ""
    assert find_older("jax", "0.12.0.1", "3.12", rows) == ""
    assert find_older("onnx", "1.0", "3.12", rows) == ""
    left_out = "jax 0.12.0: left out, since it was tested with Python 3.12, and this is 3.11"
    assert find_older("jax", "0.10.2", "3.11", rows) == left_out
    kept_back = "torch 2.14.1 was installed, but docs/releases.rst lists torch 2.15.0: what keeps pip from it?"
    assert find_older("torch", "2.14.1", "3.11", rows) == kept_back


def test_a_row_replaces_the_one_of_the_same_run_and_keeps_what_is_off() -> None:
    rows = [row("torch", "2.13.0", off="nothing"), row("torch", "2.15.0"), row("jax", "0.12.0")]
    merged = merge_row(rows, row("torch", "2.13.0"))
    assert [(one["framework"], one["release"], one["off"]) for one in merged] == [
        ("torch", "2.13.0", "nothing"),
        ("torch", "2.15.0", ""),
        ("jax", "0.12.0", ""),
    ]
    assert len(merge_row(rows, row("torch", "2.13.0", "3.12"))) == 4


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_hands_on_the_release_of_every_framework() -> None:
    for framework in SUITES:
        settings = [f"{framework.upper()}=1.2.3", "RECORD=1"]
        command = run_program(["make", "--dry-run", "test-release", *settings], cwd=ROOT).stdout
        assert read_releases(command.split()) == {framework: "1.2.3"}
        assert "--record" in command


def test_every_suite_names_what_there_is() -> None:
    settings = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    for suite in SUITES.values():
        assert all((ROOT / path).exists() for path in suite.tests)
        assert all(re.search(rf"^{extra} =$", settings, re.MULTILINE) for extra in suite.extras)
        assert set(suite.groups) <= set(groups)


def test_the_table_has_the_rows_of_runs() -> None:
    for one in read_rows():
        assert list(one) == list(COLUMNS)
        assert one["framework"] in SUITES
        assert int(one["passed"]) > 0
        assert int(one["failed"]) == 0 or one["off"], "a failure is explained"
