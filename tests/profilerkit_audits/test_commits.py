"""The commit of a row: that of its folder's repository, with a mark wherever the files may differ from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from time_limits import run_program

from profilerkit_audits.origins import find_commit

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture(autouse=True)
def outside_of_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variables by which a hook of git would send all of this to its own repository."""
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)


def call_git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return run_program(["git", *identity, "-C", folder, *arguments]).stdout.strip()


def make_repository(folder: Path, content: str = "a") -> str:
    """Make a repository with one file and return its only commit."""
    folder.mkdir()
    call_git(folder, "init", "-q")
    (folder / "net.py").write_text(content, encoding="utf-8")
    call_git(folder, "add", "net.py")
    call_git(folder, "commit", "-q", "-m", "first")
    return call_git(folder, "rev-parse", "HEAD")


def test_changed_files_mark_the_commit(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    commit = make_repository(folder)
    (folder / "untracked.txt").touch()
    assert find_commit(folder) == commit
    (folder / "net.py").write_text("longer", encoding="utf-8")
    assert find_commit(folder) == f"{commit}+"


def test_a_commit_is_marked_where_git_cannot_tell_whether_files_were_changed(tmp_path: Path) -> None:
    """Else a row from changed files would claim the commit. Here the index is broken, which git compares files with."""
    folder = tmp_path / "net"
    commit = make_repository(folder)
    (folder / ".git" / "index").write_bytes(b"broken")
    assert find_commit(folder) == f"{commit}+"


def test_in_a_hook_of_another_repository_the_commit_is_still_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git names the repository of a hook in the environment of all that the hook runs."""
    commit, other = make_repository(tmp_path / "net"), make_repository(tmp_path / "other", "b")
    assert commit != other
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    assert find_commit(tmp_path / "net") == commit


def test_without_a_repository_or_a_commit_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert find_commit(tmp_path) == ""
    call_git(tmp_path, "init", "-q")
    assert find_commit(tmp_path) == ""
