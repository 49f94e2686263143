"""What tells a file from a later one at its path: a text that is compared."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["read_stamp", "stamp_file"]


def stamp_file(status: os.stat_result) -> str:
    """Return what tells a file from a later one: its device, inode, size and time of modification."""
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"


def read_stamp(path: str | Path) -> str:
    """Return the stamp of a file; empty where there is none, and for a folder, whose time changes with its files."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):  # not to be read, or no name of a file
        return ""
    return "" if stat.S_ISDIR(status.st_mode) else stamp_file(status)
