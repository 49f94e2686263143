"""The store of audits: rows, reports and runs in SQLite or PostgreSQL; append-only, a transaction for each row.

A row, its report and its place in its run are written together and are on the disk before `Store.add` returns: a
process that is killed at any moment leaves whole rows, and an interrupted measurement is repeated.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, Select, create_engine, func, select
from sqlalchemy.exc import DBAPIError, NoSuchModuleError

from profilerkit.error_text import error_line
from profilerkit.errors import ReportFileError, StoreError
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report
from profilerkit.results.saving import parse, require_sealed, to_dict

from . import database
from .origins import read_clock
from .rows import Row, decode, encode

_Content = TypeVar("_Content")

#: How many rows, or keys, are read at once.
_AT_ONCE = 500


class Run(msgspec.Struct, frozen=True):
    """One audit, or one report that was added alone.

    Args:
        run: Its identifier.
        started: When it began: ISO 8601, UTC.
        plan: The plan, as JSON holds it.
        facts: ``engine``, ``profilerkit`` (the version), ``cases`` (how many there are) and ``command``.
        machine: The kind of machine of the process that ran it; a row of a cluster has the machine of its node.
        commit: The commit of the repository of the plan.
        ended: When it ended; empty if it was killed, or runs still.
        outcome: "done" or "interrupted"; empty as ``ended``.
    """

    run: str = ""
    started: str = ""
    plan: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    machine: str = ""
    commit: str = ""
    ended: str = ""
    outcome: str = ""


class Store:
    """A store that is open: `Store.open` opens it, ``with`` or `close` closes it.

    Nothing in the store is ever changed or deleted.
    """

    def __init__(self, engine: Engine, path: Path | None) -> None:
        self._engine = engine
        self._path = path

    @classmethod
    def open(cls, store: str | PathLike[str], create: bool = True) -> Store:
        """Open a store by URL or path, and create it if necessary.

        Raises `StoreError` if that is not possible, and for a file that does not exist without ``create``.
        """
        url = database.parse_url(store)
        path = database.find_file(url, create)
        try:
            engine = create_engine(url, pool_pre_ping=path is None)
        except (ImportError, NoSuchModuleError) as error:
            shown = database.hide_password(url.render_as_string())
            raise StoreError(f"{shown} needs a package: {error}; pip install 'profilerkit[postgres]'") from error
        if url.get_backend_name() == "sqlite":
            database.set_up(engine)
        opened = cls(engine, path)
        try:
            with opened._transact() as connection:
                created = database.is_created(connection)
            if not created:
                with opened._transact(writes=True) as connection:
                    database.create(connection)
        except BaseException:
            opened.close()
            raise
        return opened

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @property
    def url(self) -> str:
        """The URL, without its password."""
        return database.hide_password(self._engine.url.render_as_string())

    def exclusive(self) -> AbstractContextManager[None]:
        """Return a context in which no other audit writes to an SQLite file; see `database.lock`."""
        return database.lock(self._path) if self._engine.dialect.name == "sqlite" else nullcontext()

    # Writing ----------------------------------------------------------------------------------------------------------

    def begin_run(self, run: Run, machine: Mapping[str, str]) -> Run:
        """Insert the beginning of a run; returns it with its identifier and the moment."""
        run = replace(run, run=run.run or uuid.uuid4().hex, started=run.started or read_clock())
        with self._transact(writes=True) as connection:
            _insert_machine(connection, run.machine, machine)
            connection.execute(database.runs.insert().values(run=run.run, started=run.started, content=encode(run)))
        return run

    def end_run(self, run: str, outcome: str = "done") -> None:
        """Insert the end of a run."""
        with self._transact(writes=True) as connection:
            connection.execute(database.run_ends.insert().values(run=run, ended=read_clock(), outcome=outcome))

    def add(self, row: Row, report: Report | None = None, machine: Mapping[str, str] | None = None) -> Row:
        """Insert a row and its report; returns the row as the store has it, once it is on the disk.

        ``row.run`` has begun. ``machine`` are the facts of ``row.machine`` if that may be new.
        """
        content = {"checksum": ""} if report is None else to_dict(report)
        row = replace(row, checksum=content["checksum"], created=row.created or read_clock())
        with self._transact(writes=True) as connection:
            _insert_machine(connection, row.machine, machine or {})
            if report is not None:
                text = json.dumps(content, ensure_ascii=False, allow_nan=False)
                packed = zlib.compress(text.encode(), 6)
                database.insert_new(connection, database.reports, checksum=row.checksum, content=packed)
            stored = _insert_row(connection, row)
            connection.execute(database.run_rows.insert().values(run=row.run, row=stored.id))
        return stored

    def reuse(self, run: str, ids: Iterable[int]) -> None:
        """Note that a run also consists of rows that were stored before."""
        lines = [{"run": run, "row": number} for number in ids]
        if lines:
            with self._transact(writes=True) as connection:
                connection.execute(database.run_rows.insert(), lines)

    # Reading ----------------------------------------------------------------------------------------------------------

    def latest(self, keys: Iterable[str]) -> dict[str, Row]:
        """Return the last attempt of each key that has a row."""
        requested = list(dict.fromkeys(keys))
        newest: dict[str, Row] = {}
        for start in range(0, len(requested), _AT_ONCE):
            some = requested[start : start + _AT_ONCE]
            query = select(database.rows).where(database.rows.c.key.in_(some)).order_by(database.rows.c.attempt)
            with self._transact() as connection:
                newest |= {row.key: row for row in map(_read_row, connection.execute(query))}
        return newest

    def rows(
        self, run: str | None = None, spec: str | None = None, key: str | None = None, all_attempts: bool = False
    ) -> Iterator[Row]:
        """Yield rows in the order in which they were inserted: of one run, of one spec, of one key, or all.

        Of each key the last attempt, unless ``all_attempts``; of a run the rows that it consists of.
        """
        query = select(database.rows).order_by(database.rows.c.id)
        if run is not None:
            query = query.join(database.run_rows, database.run_rows.c.row == database.rows.c.id)
            query = query.where(database.run_rows.c.run == run)
        if spec is not None:
            query = query.where(database.rows.c.spec == spec)
        if key is not None:
            query = query.where(database.rows.c.key == key)
        if run is None and not all_attempts:
            later = database.rows.alias("later")
            newer = select(later.c.id).where(
                later.c.key == database.rows.c.key, later.c.attempt > database.rows.c.attempt
            )
            query = query.where(~newer.exists())
        yield from self._read_rows(query)

    def list_members(self, run: str) -> frozenset[int]:
        """Return the numbers of the rows of a run: rows that it measured, and rows that it reused."""
        query = select(database.run_rows.c.row).where(database.run_rows.c.run == run)
        with self._transact() as connection:
            return frozenset(connection.execute(query).scalars())

    def _read_rows(self, query: Select[Any]) -> Iterator[Row]:
        """Yield rows page by page, so that neither the database nor this process holds all of them at once."""
        last = -1
        while True:
            with self._transact() as connection:
                lines = list(connection.execute(query.where(database.rows.c.id > last).limit(_AT_ONCE)))
            yield from map(_read_row, lines)
            if len(lines) < _AT_ONCE:
                return
            last = lines[-1].id

    def report(self, row: Row) -> Report | None:
        """Return the report of a row, with its checksum checked; None if the row has no report.

        Raises `StoreError` for a report that is damaged, or not in the store.
        """
        report = self._read_report(row, parse)
        if isinstance(report, Comparison):
            raise StoreError(f"the report of row {row.id} holds a comparison")
        return report

    def report_json(self, row: Row) -> bytes | None:
        """Return the same as JSON, which `Report.load` reads from a file."""
        return self._read_report(row, _keep_sealed)

    def _read_report(self, row: Row, read: Callable[[bytes, str], _Content]) -> _Content | None:
        """Return what ``read`` makes of the bytes of a report, whose name in errors it gets too."""
        if not row.checksum:
            return None
        query = select(database.reports.c.content).where(database.reports.c.checksum == row.checksum)
        with self._transact() as connection:
            content = connection.execute(query).scalar()
        name = f"the report of row {row.id}"
        if content is None:
            raise StoreError(f"{name} is not in the store")
        try:
            return read(zlib.decompress(content), name)
        except zlib.error as error:
            raise StoreError(f"{name} is damaged: {error}") from error
        except ReportFileError as error:
            raise StoreError(str(error)) from error

    def runs(self) -> list[Run]:
        """Return all runs, the oldest first."""
        query = select(database.runs, database.run_ends.c.ended, database.run_ends.c.outcome)
        query = query.outerjoin(database.run_ends, database.run_ends.c.run == database.runs.c.run)
        with self._transact() as connection:
            lines = list(connection.execute(query.order_by(database.runs.c.started, database.runs.c.run)))
        return [replace(_read_run(line), ended=line.ended or "", outcome=line.outcome or "") for line in lines]

    def machines(self) -> dict[str, dict[str, str]]:
        """Return the facts of every kind of machine, by its digest."""
        with self._transact() as connection:
            return {line.machine: _read_facts(line) for line in connection.execute(select(database.machines))}

    # Transactions -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _transact(self, writes: bool = False) -> Iterator[Connection]:
        try:
            with self._engine.connect().execution_options(writes=writes) as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            what = f"the store {self.url} cannot be {'written' if writes else 'read'}"
            raise StoreError(f"{what}: {_explain(error)}") from error


def _insert_machine(connection: Connection, machine: str, facts: Mapping[str, str]) -> None:
    database.insert_new(connection, database.machines, machine=machine, facts=json.dumps(dict(facts)))


def _insert_row(connection: Connection, row: Row) -> Row:
    """Insert a row as the next attempt of its key; returns it as it is read again.

    No text of PostgreSQL holds a NUL character: JSON escapes it, and the column of specs has a question mark.
    """
    while True:  # until no other audit has stored the same attempt first
        last = select(func.max(database.rows.c.attempt)).where(database.rows.c.key == row.key)
        row = replace(row, attempt=(connection.execute(last).scalar() or 0) + 1)
        text = encode(row)
        stored = decode(text)
        columns = {"key": row.key, "attempt": row.attempt, "spec": stored.spec.replace("\0", "?")}
        number = database.insert_new(connection, database.rows, **columns, content=text)
        if number is not None:
            return replace(stored, id=number)


def _keep_sealed(content: bytes, name: str) -> bytes:
    require_sealed(content, name)
    return content


def _read_row(line: Any) -> Row:
    return replace(_read_json(decode, line.content, f"row {line.id}"), id=line.id)


def _read_run(line: Any) -> Run:
    return _read_json(lambda text: msgspec.convert(json.loads(text), Run), line.content, f"run {line.run}")


def _read_facts(line: Any) -> dict[str, str]:
    name = f"machine {line.machine}"
    return _read_json(lambda text: msgspec.convert(json.loads(text), dict[str, str]), line.facts, name)


def _read_json(read: Callable[[str], _Content], text: str, name: str) -> _Content:
    """Return what a column has as JSON; raises `StoreError` if that is damaged."""
    try:
        return read(text)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise StoreError(f"{name} of the store is damaged: {error}") from error


def _explain(error: DBAPIError) -> str:
    """Return the database's error in one line, with advice if the disk is full."""
    message = error_line(error.orig or error)
    codes = (getattr(error.orig, "sqlite_errorcode", None), getattr(error.orig, "sqlstate", None))
    if sqlite3.SQLITE_FULL in codes or "53100" in codes:
        return f"{message}; make room and run the same command again: it goes on where it ended"
    return message
