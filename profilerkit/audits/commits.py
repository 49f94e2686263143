"""The commit that the models of a plan are of, from git if it is there."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["commit_of"]

#: Seconds that git may take.
PATIENCE = 10


def commit_of(folder: Path) -> str:
    """Return the commit of the repository that a folder lies in; "+" follows it if tracked files were changed since.

    Empty if there is no repository, no commit or no git.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return ""
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
