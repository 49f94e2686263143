"""SQLite for stores: which journal is safe, how connections are set up, and the one process that may run an audit."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Engine, event

from ..errors import StoreError

__all__ = ["journal_mode", "locked", "set_up", "wal_is_safe"]

#: Seconds that a connection waits for another process that is writing a row.
PATIENCE = 60
#: File systems whose locks and shared memory hold within one machine; WAL needs both.
_LOCAL = frozenset(
    ["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "jfs", "reiserfs", "bcachefs"]
)
#: The releases with the end of the race at the reset of the WAL file (https://www.sqlite.org/wal.html): 3.51.3, and the
#: backports of it in older series.
_FIRST_SAFE = (3, 51, 3)
_BACKPORTS = {(3, 50): 7, (3, 44): 6}


def wal_is_safe(version: tuple[int, ...]) -> bool:
    """Return whether a version of SQLite is free of the race by which a checkpoint of the WAL loses pages.

    >>> wal_is_safe((3, 51, 3)), wal_is_safe((3, 51, 2)), wal_is_safe((3, 50, 7)), wal_is_safe((3, 49, 9))
    (True, False, True, False)
    """
    first = _BACKPORTS.get((version[0], version[1]))
    return version >= _FIRST_SAFE or (first is not None and version[2] >= first)


def journal_mode(path: Path, version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """Return "wal" on a local disk with a safe version of SQLite, and "delete" (the rollback journal) otherwise."""
    return "wal" if wal_is_safe(version) and file_system(path) in _LOCAL else "delete"


def file_system(path: Path) -> str:
    """Return the type of the file system that a file is on, or will be; empty if the system does not tell."""
    folder = path.absolute().parent
    with suppress(OSError):
        folder = folder.resolve()
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # no Linux
        return ""
    best, kind = "", ""
    for line in lines:
        parts = line.split()
        mount = parts[1].replace("\\040", " ") if len(parts) > 2 else ""
        if mount and (str(folder) + "/").startswith(mount.rstrip("/") + "/") and len(mount) >= len(best):
            best, kind = mount, parts[2]
    return kind


def set_up(engine: Engine, path: Path | None) -> None:
    """Have every connection of an engine write each row to the disk before it says so, and wait for other writers.

    Transactions begin by SQLite's own words: one that writes takes the lock at its beginning, so that it never finds
    half-way that another process was faster.
    """
    mode = "memory" if path is None else journal_mode(path)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000}")
        current = cursor.execute("PRAGMA journal_mode").fetchone()[0]
        if current != mode and path is not None:
            with suppress(sqlite3.OperationalError):  # another process has it open: it chose by the same rule
                cursor.execute(f"PRAGMA journal_mode = {mode}")
        # More than FULL: the folder is synchronised, too, when the rollback journal is removed, which is what commits.
        cursor.execute("PRAGMA synchronous = EXTRA")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Let one audit at a time write to a file; raises `StoreError` while another one does.

    The system gives the lock back when the process ends, however it ends. A single report may be added meanwhile.
    """
    if path is None or sys.platform == "win32":
        yield
        return
    import fcntl

    lock = path.with_name(f"{path.name}.lock")
    try:
        opened = lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"the store {path} cannot be written: {error.strerror or error}; use one in another folder: --store"
        ) from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreError(
                f"another audit is writing to {path}{_who(file)}; wait for its end, or use another store: --store "
                "sqlite:///other.db (several audits can write to one PostgreSQL database at the same time)"
            ) from error
        with suppress(OSError):  # on a full disk: the store says so when a row is added
            os.truncate(file.fileno(), 0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())
        yield


def _who(file: IO[str]) -> str:
    file.seek(0)
    process = file.read(20).strip()
    return f" (process {process})" if process.isdigit() else ""
