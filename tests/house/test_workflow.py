"""The workflow runs what the project has: real targets, the Pythons and the releases of ``setup.cfg``."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from typing import Any

import pytest
from releases import SUITES
from source_tree import ROOT, oldest_release

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"


def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return loaded


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in workflow()["jobs"].items():
        yield from ((name, step) for step in job["steps"])


def commands(job: str | None = None) -> str:
    return "\n".join(step.get("run", "") for name, step in steps() if job in (None, name))


def targets_run(text: str) -> set[str]:
    return set(re.findall(r"\bmake ([a-z-]+)", text))


def targets_of_the_makefile() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def list_pythons() -> list[str]:
    return re.findall(r"Python :: (3\.\d+)", setup()["metadata"]["classifiers"])


def matrix(job: str) -> dict[str, Any]:
    found: dict[str, Any] = workflow()["jobs"][job]["strategy"]["matrix"]
    return found


def test_every_target_that_is_named_exists() -> None:
    named = targets_run(commands())
    assert {"lint", "test", "test-all", "docs"} <= named
    assert named <= targets_of_the_makefile()


def test_the_pythons_are_those_of_the_classifiers() -> None:
    tried = {*matrix("pinned")["python"], *matrix("newest")["python"]}
    assert tried | {one["python"] for one in matrix("newest")["include"]} == set(list_pythons())
    versions = [step["with"]["python-version"] for _, step in steps() if "setup-python" in step.get("uses", "")]
    assert versions
    assert set(versions) - {"${{ matrix.python }}"} <= set(list_pythons())


def test_the_oldest_frameworks_are_those_of_the_extras() -> None:
    assert re.search(r"python_requires = >=([\d.]+)", (ROOT / "setup.cfg").read_text(encoding="utf-8"))
    tried = dict(release.split("=") for release in matrix("oldest")["release"])
    assert list(tried) == [name.upper() for name, suite in SUITES.items() if name in suite.extras]
    for framework in map(str.lower, tried):
        assert f"{tried[framework.upper()]}.".startswith(f"{oldest_release(framework)}."), framework


def test_the_newest_of_each_framework_is_tried_without_pins_each_week_and_on_pull_requests() -> None:
    assert matrix("newest")["framework"] == list(SUITES)
    assert "if" not in workflow()["jobs"]["newest"]
    triggers = workflow()[True]  # YAML reads `on` as a truth value
    assert {"pull_request", "schedule"} <= set(triggers)
    assert "constraints" not in commands("newest")


def test_builds_of_the_night_may_fail_and_are_those_that_there_are() -> None:
    assert workflow()["jobs"]["nightly"]["continue-on-error"] is True
    assert matrix("nightly")["framework"] == [name for name, suite in SUITES.items() if suite.nightly]


def test_every_file_that_is_named_exists() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    named = set(re.findall(r"\bconstraints[\w-]*\.txt|\bsetup\.cfg", text))
    assert named
    assert all((ROOT / name).is_file() for name in named)


def test_every_job_may_only_read_and_ends() -> None:
    whole = workflow()
    assert whole["permissions"] == {"contents": "read"}
    assert whole["concurrency"]["cancel-in-progress"] is True
    for name, job in whole["jobs"].items():
        assert "permissions" not in job, name
        assert job["timeout-minutes"] <= 90, name


def test_every_step_runs_a_command_or_an_action_of_one_major_version() -> None:
    for name, step in steps():
        assert ("run" in step) != ("uses" in step), name
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), step["uses"]
