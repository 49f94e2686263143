"""SQLite for stores: every row is on the disk before its writer goes on, and one audit at a time writes to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Engine, event

from profilerkit.errors import StoreError

__all__ = ["lock", "set_up"]

#: Seconds that a connection waits for another process that is writing a row.
PATIENCE = 60


def set_up(engine: Engine) -> None:
    """Have every connection of an engine write each row to the disk before it says so, and wait for other writers.

    Transactions begin by SQLite's own words: one that writes takes the lock at its beginning, so that it never finds
    half-way that another process was faster. The journal is SQLite's usual one, the rollback journal: the write-ahead
    log loses pages in many releases (https://www.sqlite.org/wal.html) and does not work on network file systems.
    """

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000}")
        # More than FULL: the folder is synchronised, too, when the rollback journal is removed, which is what commits.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def lock(path: Path | None) -> Iterator[None]:
    """Let one audit at a time write to a file; raises `StoreError` while another one does.

    The system gives the lock back when the process ends, however it ends. A single report may be added meanwhile.
    """
    if path is None or sys.platform == "win32":
        yield
        return
    import fcntl

    try:
        file = path.with_name(f"{path.name}.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"the store {path} cannot be written: {error.strerror or error}; use one in another folder: --store"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreError(
                f"another audit is writing to {path}{_read_owner(file)}; wait for its end, or use another store: "
                "--store sqlite:///other.db (several audits can write to one PostgreSQL database at the same time)"
            ) from error
        with suppress(OSError):  # on a full disk: the store says so when a row is added
            os.truncate(file.fileno(), 0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())
        yield


def _read_owner(file: IO[str]) -> str:
    file.seek(0)
    process = file.read(20).strip()
    return f" (process {process})" if process.isdigit() else ""
