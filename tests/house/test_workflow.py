"""The workflows run what the project has, may do no more than they need, and name each action by a commit."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from releases import SUITES
from source_tree import ROOT, oldest_release

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOW, RELEASE = (ROOT / ".github" / "workflows" / name for name in ("tests.yml", "release.yml"))


def workflow(path: Path = WORKFLOW) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def steps(path: Path = WORKFLOW) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each step with its job; a job that is another workflow has none."""
    for name, job in workflow(path)["jobs"].items():
        yield from ((name, step) for step in job.get("steps", ()))


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


#: What the jobs of a release may do beside reading, and no other job.
ALLOWED = {"publish": {"id-token": "write", "attestations": "write"}, "page": {"contents": "write"}}


def test_every_job_may_only_read_and_ends() -> None:
    assert workflow()["concurrency"]["cancel-in-progress"] is True
    for path in WORKFLOWS:
        whole = workflow(path)
        assert whole["permissions"] == {"contents": "read"}, path.name
        for name, job in whole["jobs"].items():
            assert job.get("permissions") == (ALLOWED.get(name) if path == RELEASE else None), name
            assert "uses" in job or job["timeout-minutes"] <= 90, name


def test_only_a_tag_publishes_and_a_person_is_asked() -> None:
    jobs = workflow(RELEASE)["jobs"]
    assert (jobs["publish"]["if"], jobs["publish"]["needs"]) == ("github.ref_type == 'tag'", "build")
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["page"]["needs"] == "publish"
    assert workflow(RELEASE)["concurrency"]["cancel-in-progress"] is False


def test_a_version_is_the_same_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == setup()["metadata"]["version"]
    assert cited["repository-code"] == setup()["metadata"]["url"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_step_runs_a_command_or_an_action_of_one_commit(path: Path) -> None:
    """A tag can be moved to other code; the comment behind a commit tells a reader, and Dependabot, the release."""
    for name, step in steps(path):
        assert ("run" in step) != ("uses" in step), name
    for used in re.findall(r"uses: (.+)", path.read_text(encoding="utf-8")):
        assert re.fullmatch(r"[\w.-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/workflows/\w+\.yml", used), used


def test_workflows_that_are_called_exist() -> None:
    for path in WORKFLOWS:
        for job in workflow(path)["jobs"].values():
            assert (ROOT / job.get("uses", ".")).exists(), job
