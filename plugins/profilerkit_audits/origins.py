"""The moment and the commit at which a row was measured, as the store has them, and their short forms."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

#: Seconds that git may take.
_PATIENCE = 10
#: Variables that name a repository, whatever the folder: git sets them for the commands that its hooks run.
_NAME_A_REPOSITORY = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"})


def find_commit(folder: Path) -> str:
    """Return the commit of the repository that a folder lies in; empty without a repository, a commit or git.

    "+" follows the commit if tracked files were changed since, and if git cannot tell whether they were.
    """
    commit = _call_git(folder, "rev-parse", "HEAD")
    if not commit:
        return ""
    is_unchanged = _call_git(folder, "status", "--porcelain", "--untracked-files=no") == ""
    return commit if is_unchanged else f"{commit}+"


def _call_git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git for the repository of a folder; None if git fails."""
    # git status writes to the repository unless it is told that it need not.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in _NAME_A_REPOSITORY}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=_PATIENCE,
            stdin=subprocess.DEVNULL,
            check=False,
            text=True,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def shorten_commit(commit: str, length: int = 12) -> str:
    """Return the short form of a commit; a "+" at its end, for files changed since the commit, stays.

    >>> shorten_commit("0123456789abcdef+"), shorten_commit("0123+")
    ('0123456789ab+', '0123+')
    """
    is_cut_off = len(commit) > length and commit.endswith("+")
    return f"{commit[:length]}+" if is_cut_off else commit[:length]


def read_clock() -> str:
    """Return the moment as ISO 8601 in UTC, with microseconds, so that texts sort in the order of time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def shorten_moment(moment: str, length: int = 19) -> str:
    """Return the short form of a moment: with 19 characters to the second, with 16 to the minute."""
    return moment[:length].replace("T", " ")
