"""The action for GitHub: what its scripts do, run here with a ``profilerkit`` and a ``gh`` of the test's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from source_tree import ROOT
from time_limits import run_program

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

needs_bash = pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="there is no bash")


def read(path: Path) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


ACTION = read(ROOT / "action.yml")
CHECK, COMMENT, FAIL = ACTION["runs"]["steps"]

#: Notes its arguments, prints a table, and exits as it is told.
PROFILERKIT = """#!/bin/bash
printf '%s\\n' "$*" >> "$CALLS"
if [ "$1" = diff ]; then echo "the difference"; exit 0; fi
printf '### Budget of net\\n\\nmacs &lt;= 1 failed, 5 %% over the limit \\\\(net\\\\)\\n\\ntable\\n'
exit "$CODE"
"""
#: Notes its arguments and the file that it would send; answers with the login of its token, which may be refused, and
#: with the comment that the author who is asked for has.
GH = """#!/bin/bash
printf '%s\\n' "$*" >> "$CALLS"
if [ "$2" = graphql ]; then echo "$LOGIN"; exit "$GH_CODE"; fi
if [ "$2" = --paginate ]; then if [ "$AUTHOR" = "$WROTE" ]; then echo -n "$OWN"; fi; exit 0; fi
exit "$GH_CODE"
"""


class Run:
    def __init__(self, folder: Path, script: str, **variables: str) -> None:
        programs = folder / "bin"
        programs.mkdir(exist_ok=True)
        for name, text in (("profilerkit", PROFILERKIT), ("gh", GH)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        files = {name: str(folder / name) for name in ("CALLS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(folder),
            "CODE": "0",
            "GH_CODE": "0",
            "OWN": "",
            "LOGIN": "a-bot",
            "WROTE": "a-bot",
            **files,
            **variables,
        }
        self.done = run_program(["bash", "-e", "-o", "pipefail", "-c", script], check=False, env=environment)
        self.calls = Path(files["CALLS"]).read_text().splitlines() if Path(files["CALLS"]).exists() else []
        output = Path(files["GITHUB_OUTPUT"])
        self.outputs = dict(line.split("=", 1) for line in output.read_text().splitlines()) if output.exists() else {}
        summary = Path(files["GITHUB_STEP_SUMMARY"])
        self.summary = summary.read_text() if summary.exists() else ""


INPUTS = {"MODEL": "net.py:build", "INPUT_SHAPE": "", "BUDGET": "", "BASELINE": "", "OPTIONS": "", "NAME": "model"}


@needs_bash
def test_a_budget_that_is_kept(tmp_path: Path) -> None:
    run = Run(tmp_path, CHECK["run"], **{**INPUTS, "BUDGET": "a budget.toml"})
    assert run.done.returncode == 0, run.done.stderr
    assert run.calls == ["check net.py:build --budget a budget.toml --format markdown"]
    assert run.outputs["kept"] == "true"
    assert run.summary.startswith("<!-- profilerkit budget: model -->\n### Budget of net\n")


@needs_bash
def test_a_budget_that_is_broken_goes_on_to_the_comment_and_fails_then(tmp_path: Path) -> None:
    given = {"INPUT_SHAPE": "3,32,32", "BASELINE": "main.json", "OPTIONS": "--strict --retries 2", "CODE": "1"}
    run = Run(tmp_path, CHECK["run"], **{**INPUTS, **given})
    assert run.done.returncode == 0, run.done.stderr
    check, diff = run.calls
    assert check == (
        "check net.py:build --baseline main.json --input-shape 3,32,32 --strict --retries 2 --format markdown"
    )
    assert diff.startswith("diff main.json net.py:build --input-shape 3,32,32 ")
    assert "the difference" in run.summary
    assert run.outputs["kept"] == "false"
    failed = Run(tmp_path, FAIL["run"], REPORT=run.outputs["report"])
    assert (failed.done.returncode, failed.done.stdout) == (
        1,
        "::error::macs <= 1 failed, 5 %25 over the limit (net)\n",
    )


@needs_bash
def test_an_error_of_the_command_is_an_error_of_the_action(tmp_path: Path) -> None:
    run = Run(tmp_path, CHECK["run"], **INPUTS, CODE="3")
    assert (run.done.returncode, run.outputs) == (3, {})


@needs_bash
@pytest.mark.parametrize(
    ("own", "author", "request_made"),
    [
        ("", "a-bot", "api --method POST repos/o/r/issues/7/comments"),
        ("42", "a-bot", "api --method PATCH repos/o/r/issues/comments/42"),
        ("42", "somebody", "api --method POST repos/o/r/issues/7/comments"),
    ],
)
def test_there_is_one_comment_of_the_tokens_author_which_is_replaced(
    tmp_path: Path, own: str, author: str, request_made: str
) -> None:
    report = tmp_path / "report.md"
    report.write_text("<!-- profilerkit budget: model -->\ntext\n")
    given = {"REPORT": str(report), "REPOSITORY": "o/r", "NUMBER": "7", "OWN": own, "WROTE": author}
    run = Run(tmp_path, COMMENT["run"], **given)
    assert run.done.returncode == 0, run.done.stderr
    assert run.calls[-1] == f"{request_made} --field body=@{report}"
    refused = Run(tmp_path, COMMENT["run"], **given, GH_CODE="1")
    assert refused.done.returncode == 0, "a fork's token may not comment, which is no failure of the model"
    assert refused.done.stdout.startswith("::warning::No comment was made")


@needs_bash
def test_a_token_that_may_not_ask_who_it_is_is_that_of_the_workflow(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    report.write_text("<!-- profilerkit budget: model -->\ntext\n")
    known = {"REPORT": str(report), "REPOSITORY": "o/r", "NUMBER": "7", "OWN": "42", "WROTE": "github-actions[bot]"}
    run = Run(tmp_path, COMMENT["run"], **known, LOGIN="{an error}", GH_CODE="1")
    assert run.calls[-1].startswith("api --method PATCH repos/o/r/issues/comments/42")


def test_inputs_reach_scripts_through_the_environment_alone() -> None:
    """In the text of a script an input could be a command."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_every_input_is_used_and_described() -> None:
    text = json.dumps(ACTION["runs"])
    for name, entry in ACTION["inputs"].items():
        assert f"inputs.{name}" in text, name
        assert entry["description"].endswith(".")
    assert {*ACTION} >= {"name", "description", "author", "branding", "runs"}, "what a published action needs"


def test_the_example_workflow_gives_the_inputs_that_there_are() -> None:
    example = read(ROOT / "examples" / "budget_workflow.yml")
    (job,) = example["jobs"].values()
    (step,) = [step for step in job["steps"] if step.get("uses", "").startswith("./")]
    assert set(step["with"]) <= set(ACTION["inputs"])
    required = {name for name, entry in ACTION["inputs"].items() if entry.get("required")}
    assert required <= set(step["with"])
    assert example["permissions"] == {"contents": "read", "pull-requests": "write"}


def test_the_example_workflow_takes_the_action_and_the_package_from_one_commit_that_there_is() -> None:
    """The package is on no index, and a branch is another program tomorrow."""
    (job,) = read(ROOT / "examples" / "budget_workflow.yml")["jobs"].values()
    (checkout,) = [step["with"] for step in job["steps"] if step.get("with", {}).get("repository")]
    address = re.search(r"^url = https://[\w.]+/(.+)$", (ROOT / "setup.cfg").read_text(encoding="utf-8"), re.MULTILINE)
    assert address
    assert checkout["repository"] == address[1]
    assert re.fullmatch("[0-9a-f]{40}", checkout["ref"])
    used = [step.get("uses", step.get("run")) for step in job["steps"]]
    assert f"./{checkout['path']}" in used
    assert f"pip install './{checkout['path']}[torch]' -e ." in used
    git = ["git", "-C", str(ROOT)]
    whole = run_program([*git, "rev-parse", "--is-shallow-repository"], check=False)
    if whole.stdout.strip() == "false":
        ancestor = run_program([*git, "merge-base", "--is-ancestor", checkout["ref"], "HEAD"], check=False)
        assert ancestor.returncode == 0, "no commit of this history"


@needs_bash
def test_the_options_of_the_scripts_are_those_of_the_commands() -> None:
    from profilerkit.cli.compare_command import diff
    from profilerkit_budgets.check_command import command as check

    for command, script in ((check, CHECK["run"].partition("profilerkit diff")[0]), (diff, CHECK["run"])):
        options = {option for parameter in command.params for option in parameter.opts}
        part = script if command is check else script.partition("profilerkit diff")[2].partition("details>")[0]
        assert set(re.findall(r"(?<!\S)\(?(--[a-z-]+)", part)) <= options, command.name


def test_the_templates_are_read() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = read(path)
        assert path.name == "config.yml" or {"name", "description", "body"} <= set(form), path.name
