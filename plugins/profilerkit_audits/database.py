"""The database of a store: its address, SQLite as a store needs it, and the tables.

Every table is append-only: lines are inserted and never changed or deleted. A run therefore has its beginning in
``runs`` and its end in ``run_ends``; a row that is measured again is a further row with a higher ``attempt``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy import Engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError as UrlError

from profilerkit.errors import StoreError


def parse_url(store: str | PathLike[str]) -> URL:
    """Return the URL of a store: a URL of SQLAlchemy, or the path of an SQLite file.

    >>> str(parse_url("runs.db"))
    'sqlite:///runs.db'

    Raises `StoreError` for a URL of a database that is not offered.
    """
    text = str(store)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
    except (UrlError, ValueError) as error:
        raise StoreError(
            f"{hide_password(text)!r} is no URL of a store; give sqlite:///runs.db or postgresql://user@host/database"
        ) from error
    if url.get_backend_name() == "postgresql" and url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(
            f"a store in {url.get_backend_name()} is not offered; there are sqlite:///runs.db and "
            "postgresql://user@host/database"
        )
    return url


def hide_password(store: str | PathLike[str]) -> str:
    """Return a path as it is, and a URL without its password, to be printed.

    >>> hide_password("postgresql://me:pw@host/runs")
    'postgresql://me:***@host/runs'
    """
    hidden = re.sub(r"(?<=://)([^/:@]*):.*(?=@)", r"\1:***", str(store))
    return re.sub(r"([?&]password=)[^&]*", r"\1***", hidden)


def find_file(url: URL, create: bool) -> Path | None:
    """Return the file of an SQLite store; None for a database in memory, and for other databases.

    Raises `StoreError` if the file does not exist and must not be created, or if its folder does not exist.
    """
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    path = Path(str(url.database))
    if not path.exists() and not create:
        raise StoreError(f"there is no store {str(path)!r}; give the path or URL that an audit wrote to")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"there is no folder {str(path.absolute().parent)!r} for the store {path.name!r}")
    return path


# SQLite ---------------------------------------------------------------------------------------------------------------

#: Seconds that a connection waits for another process that is writing a row.
PATIENCE = 60


def set_up(engine: Engine) -> None:
    """Make every connection of an engine write each row to disk before a commit returns, and wait for other writers.

    Transactions begin with SQLite's own commands: a writing transaction takes the lock at its beginning, so that no
    other process can write in between. The journal is SQLite's default, the rollback journal: the write-ahead log loses
    pages in many releases (https://www.sqlite.org/wal.html) and does not work on network file systems.
    """

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000}")
        # More than FULL: the folder is synchronised, too, when the rollback journal is removed; the removal commits.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def lock(path: Path | None) -> Iterator[None]:
    """Let one audit at a time write to a file; raises `StoreError` while another audit writes.

    The system releases the lock when the process ends, even if it is killed. A single report may be added meanwhile.
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


# Tables ---------------------------------------------------------------------------------------------------------------

#: The version of the tables; each released form of the tables has its own.
VERSION = 1
metadata: sa.MetaData = sa.MetaData()

version: sa.Table = sa.Table("profilerkit_store", metadata, sa.Column("version", sa.Integer, primary_key=True))

machines: sa.Table = sa.Table(
    "machines",
    metadata,
    sa.Column("machine", sa.String(64), primary_key=True, comment="digest of the facts that times depend on"),
    sa.Column("facts", sa.Text, nullable=False, comment="JSON: cpu, cores, memory, system"),
)

runs: sa.Table = sa.Table(
    "runs",
    metadata,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("started", sa.String(40), nullable=False, index=True, comment="ISO 8601, UTC"),
    sa.Column("content", sa.Text, nullable=False, comment="JSON of profilerkit_audits.Run"),
    comment="one line for each `profilerkit audit`, and for each `profilerkit profile --store`",
)

run_ends: sa.Table = sa.Table(
    "run_ends",
    metadata,
    sa.Column("run", sa.String(64), sa.ForeignKey("runs.run"), primary_key=True),
    sa.Column("ended", sa.String(40), nullable=False),
    sa.Column("outcome", sa.String(20), nullable=False, comment="done or interrupted"),
    comment="a run without a line was killed, or runs still",
)

reports: sa.Table = sa.Table(
    "reports",
    metadata,
    sa.Column("checksum", sa.String(64), primary_key=True, comment="the checksum inside of the report"),
    sa.Column("content", sa.LargeBinary, nullable=False, comment="what Report.save writes, compressed by zlib"),
)

#: SQLite counts up by itself only a column of the type INTEGER.
_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")

rows: sa.Table = sa.Table(
    "rows",
    metadata,
    sa.Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("key", sa.String(64), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("spec", sa.Text, nullable=False, index=True),
    sa.Column("content", sa.Text, nullable=False, comment="JSON of profilerkit_audits.Row"),
    sa.UniqueConstraint("key", "attempt"),
)

run_rows: sa.Table = sa.Table(
    "run_rows",
    metadata,
    sa.Column("run", sa.String(64), sa.ForeignKey("runs.run"), primary_key=True),
    sa.Column("row", _ROW_ID, sa.ForeignKey("rows.id"), primary_key=True, index=True),
    comment="the rows of a run: those that it measured, and those that were there already",
)


def is_created(connection: sa.Connection) -> bool:
    """Return whether a database has the tables of a store; `StoreError` for other tables or another version."""
    present = set(sa.inspect(connection).get_table_names()) & set(metadata.tables)
    if not present:
        return False
    number = connection.execute(sa.select(version.c.version)).scalar() if version.name in present else None
    if number is None:
        raise StoreError(
            f"the database has tables {', '.join(sorted(present))}, and is no store of profilerkit; use another one"
        )
    if number != VERSION:
        raise StoreError(
            f"the store has version {number}, and this profilerkit reads version {VERSION}; use the profilerkit that "
            "wrote it, or another store"
        )
    return True


def create(connection: sa.Connection) -> None:
    """Make the tables of a store, unless another process has made them meanwhile."""
    if not is_created(connection):
        metadata.create_all(connection)
        connection.execute(version.insert().values(version=VERSION))


def insert_new(connection: sa.Connection, table: sa.Table, **values: Any) -> Any:
    """Insert a line; returns its primary key, or None if the line conflicts with a stored line."""
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    key = next(iter(table.primary_key.columns))
    return connection.execute(dialect.insert(table).values(**values).on_conflict_do_nothing().returning(key)).scalar()
