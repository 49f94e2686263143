"""The workflow runs what the project has: real targets, the Pythons and the oldest frameworks of ``setup.cfg``."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from typing import Any

import pytest
from source_tree import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"
OLDEST = "constraints-oldest.txt"


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


def supported_pythons() -> list[str]:
    return re.findall(r"Python :: (3\.\d+)", setup()["metadata"]["classifiers"])


def at_least(requirement: str) -> str:
    """Return the lower bound of the one requirement of an extra."""
    found = re.fullmatch(r"\s*[\w-]+>=([\d.]+)\s*", setup()["options.extras_require"][requirement])
    assert found, requirement
    return found[1]


def test_every_target_that_is_named_exists() -> None:
    named = targets_run(commands())
    assert {"lint", "test", "test-all", "docs"} <= named
    assert named <= targets_of_the_makefile()


def test_the_pythons_are_those_of_the_classifiers() -> None:
    assert workflow()["jobs"]["newest"]["strategy"]["matrix"]["python"] == supported_pythons()
    versions = [step["with"]["python-version"] for _, step in steps() if "setup-python" in step.get("uses", "")]
    assert versions
    assert set(versions) - {"${{ matrix.python }}"} <= set(supported_pythons())


def test_the_oldest_python_runs_the_oldest_frameworks() -> None:
    assert f"CONSTRAINTS={OLDEST}" in commands("oldest")
    python = [step["with"]["python-version"] for name, step in steps() if name == "oldest" and "with" in step]
    assert python == supported_pythons()[:1]
    lines = (ROOT / OLDEST).read_text(encoding="utf-8")
    for framework in ("torch", "tensorflow"):
        pinned = re.search(rf"^{framework}==([\d.]+)$", lines, re.MULTILINE)
        assert pinned, framework
        assert f"{pinned[1]}.".startswith(f"{at_least(framework)}."), framework


def test_every_file_that_is_named_exists() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    named = set(re.findall(r"\bconstraints[\w-]*\.txt|\bsetup\.cfg", text))
    assert OLDEST in named
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
