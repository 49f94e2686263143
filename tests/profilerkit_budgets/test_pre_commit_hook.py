"""The hook for pre-commit, with pre-commit itself where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from source_tree import ROOT
from time_limits import run_program

HOOKS = ROOT / ".pre-commit-hooks.yaml"


def read_keys() -> dict[str, str]:
    """Return the keys of the only hook; the file has one line for each."""
    lines = re.findall(r"^[- ] (\w+): (.+)$", HOOKS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(dict(lines)) == len(lines), "one hook"
    return dict(lines)


def test_the_hook_runs_a_command_that_exists_without_file_names() -> None:
    keys = read_keys()
    assert keys["entry"] == "profilerkit check"
    assert (keys["pass_filenames"], keys["language"]) == ("false", "system")
    assert re.search(keys["files"], "net.py") and re.search(keys["files"], "budget.toml")
    assert not re.search(keys["files"], "readme.md")
    assert keys["id"] in (ROOT / "docs" / "budgets.rst").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pre_commit") is None, reason="pre-commit is not installed")
def test_a_commit_that_breaks_the_budget_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository with the hook's file alone stands for profilerkit's, and a project uses it."""
    pytest.importorskip("torch")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)

    def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return run_program(command, check=False, cwd=folder)

    def commit_all(folder: Path) -> None:
        run("git", "init", "-q", folder=folder)
        run("git", "add", "-A", folder=folder)
        author = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
        done = run("git", *author, "commit", "-q", "-m", "all", folder=folder)
        assert done.returncode == 0, done.stderr

    hooks, project = tmp_path / "hooks", tmp_path / "project"
    hooks.mkdir()
    shutil.copy(HOOKS, hooks)
    commit_all(hooks)
    revision = run("git", "rev-parse", "HEAD", folder=hooks).stdout.strip()
    project.mkdir()
    (project / "net.py").write_text("import torch\n\ndef build():\n    return torch.nn.Linear(4, 8)\n")
    table = "[tool.profilerkit]\ninput-shape = '4'\n[tool.profilerkit.check]\nlimit = 'macs <= {}'\n"
    (project / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {hooks}\n  rev: {revision}\n  hooks:\n  - id: profilerkit-check\n    args: ['net.py:build']\n"
    )
    for limit, code in ((32, 0), (31, 1)):
        (project / "pyproject.toml").write_text(table.format(limit))
        commit_all(project)
        done = run(sys.executable, "-m", "pre_commit", "run", "--all-files", folder=project)
        assert done.returncode == code, done.stdout + done.stderr
        assert ("macs <= 31 failed" in done.stdout) is bool(code)
