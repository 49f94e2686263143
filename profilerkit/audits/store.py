"""The store of audits: rows, reports and runs in SQLite or PostgreSQL; append-only, one transaction a row.

A row, its values, its report and its place in its run are written together and are on the disk before `Store.add`
returns: a process that is killed at any moment leaves whole rows, and what was being measured is measured again.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Select, create_engine, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError as UrlError
from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError

from ..errors import StoreError
from ..results.report import Report
from ..results.saving import parse, to_json
from . import schema
from .migrating import migrate
from .rows import Row
from .sqlite_files import locked, set_up
from .stored import decoded, encoded, row_of, row_values, value_rows

__all__ = ["Run", "Store", "as_url", "without_password"]

#: How many rows, or keys, are asked for at once.
_AT_ONCE = 500
#: How often a row is inserted again with the next attempt, where another audit was faster.
_RACES = 20


@dataclass(frozen=True)
class Run:
    """One audit, or one report that was put in.

    Args:
        run: Its identifier.
        started: When it began: ISO 8601, UTC.
        plan: The plan, as JSON holds it.
        facts: ``engine``, ``profilerkit`` (the version), ``cases`` (how many there are) and ``command``.
        machine: The kind of machine of the process that ran it; a row of a cluster has its own.
        commit: The commit of the repository of the plan.
        ended: When it ended; empty if it was killed, or runs still.
        outcome: "done" or "interrupted"; empty as ``ended``.
    """

    run: str
    started: str
    plan: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""
    commit: str = ""
    ended: str = ""
    outcome: str = ""


def as_url(store: str | PathLike[str]) -> URL:
    """Return the URL of a store: a URL of SQLAlchemy, or the path of an SQLite file.

    >>> str(as_url("runs.db"))
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
            f"{without_password(text)!r} is no URL of a store; give sqlite:///runs.db or postgresql://user@host/database"
        ) from error
    if url.get_backend_name() == "postgresql" and url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(
            f"a store in {url.get_backend_name()} is not offered; there are sqlite:///runs.db and "
            "postgresql://user@host/database"
        )
    return url


def without_password(store: str | PathLike[str]) -> str:
    """Return a path as it is, and a URL without its password, to be printed.

    >>> without_password("postgresql://me:pw@host/runs")
    'postgresql://me:***@host/runs'
    """
    return re.sub(r"(?<=://)([^/:@]*):.*(?=@)", r"\1:***", str(store))


class Store:
    """A store that is open: `Store.open` opens it, ``with`` or `close` closes it.

    Nothing in it is ever changed or deleted. Reading never waits for an audit that writes.
    """

    def __init__(self, engine: Engine, path: Path | None) -> None:
        self._engine = engine
        self._path = path

    @classmethod
    def open(cls, store: str | PathLike[str], create: bool = True) -> Store:
        """Open a store by URL or path, create it if need be, and bring it to today's schema.

        Raises `StoreError` if that is not possible, and for a file that does not exist without ``create``.
        """
        url = as_url(store)
        path = _file_of(url)
        if path is not None:
            _require_file(path, create)
        try:
            engine = create_engine(url, json_serializer=encoded, pool_pre_ping=path is None)
        except (ImportError, NoSuchModuleError) as error:
            raise StoreError(f"{_shown(url)} needs a package: {error}; pip install 'profilerkit[postgres]'") from error
        if url.get_backend_name() == "sqlite":
            set_up(engine, path)
        opened = cls(engine, path)
        with opened._writing() as connection:
            migrate(connection)
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
        return _shown(self._engine.url)

    def exclusive(self) -> Any:
        """Return a context in which no other audit writes to an SQLite file; see `sqlite_files.locked`."""
        return locked(self._path) if self._engine.dialect.name == "sqlite" else nullcontext()

    # Writing ----------------------------------------------------------------------------------------------------------

    def begin_run(self, run: Run, machine: Mapping[str, str]) -> Run:
        """Insert the beginning of a run; returns it with its identifier and the moment."""
        begun = replace(run, run=run.run or uuid.uuid4().hex, started=run.started or now())
        with self._writing() as connection:
            _insert_machine(connection, begun.machine, machine)
            content = {"plan": encoded(begun.plan), "facts": encoded(begun.facts), "machine": begun.machine}
            names = {"run": begun.run, "started": begun.started, "commit": begun.commit}
            connection.execute(schema.runs.insert().values(**names, **content))
        return begun

    def end_run(self, run: str, outcome: str = "done") -> None:
        """Insert the end of a run."""
        with self._writing() as connection:
            connection.execute(schema.run_ends.insert().values(run=run, ended=now(), outcome=outcome))

    def add(self, row: Row, report: Report | None = None, machine: Mapping[str, str] | None = None) -> Row:
        """Insert a row, its values and its report; returns it with its number and its attempt, once it is on the disk.

        ``row.run`` has begun. ``machine`` are the facts of ``row.machine`` if that may be new.
        """
        content = None if report is None else to_json(report)
        checksum = "" if content is None else _checksum_of(content)
        for _ in range(_RACES):
            try:
                with self._writing() as connection:
                    _insert_machine(connection, row.machine, machine or {})
                    if content is not None:
                        _insert_report(connection, checksum, content)
                    return self._insert(connection, replace(row, checksum=checksum, created=row.created or now()))
            except _TakenError:
                continue
        raise StoreError(
            f"a row of {row.spec} cannot be inserted: other audits insert rows of the same key all the time"
        )

    def _insert(self, connection: Connection, row: Row) -> Row:
        last = connection.execute(select(func.max(schema.rows.c.attempt)).where(schema.rows.c.key == row.key)).scalar()
        row = replace(row, attempt=(last or 0) + 1)
        try:
            result = connection.execute(schema.rows.insert().values(**row_values(row)))
        except IntegrityError as error:
            raise _TakenError from error
        key = result.inserted_primary_key
        row = replace(row, id=int(key[0]) if key else None)
        values = value_rows(row)
        if values:
            connection.execute(schema.measured.insert(), values)
        connection.execute(schema.run_rows.insert().values(run=row.run, row=row.id))
        return row

    def reuse(self, run: str, ids: Iterable[int]) -> None:
        """Say that a run consists of rows, too, that were there already."""
        linked = [{"run": run, "row": number} for number in ids]
        if linked:
            with self._writing() as connection:
                connection.execute(schema.run_rows.insert(), linked)

    # Reading ----------------------------------------------------------------------------------------------------------

    def latest(self, keys: Iterable[str]) -> dict[str, Row]:
        """Return the last attempt of each key that has a row, without its values."""
        requested = list(dict.fromkeys(keys))
        newest: dict[str, Row] = {}
        with self._reading() as connection:
            for start in range(0, len(requested), _AT_ONCE):
                some = requested[start : start + _AT_ONCE]
                query = select(schema.rows).where(schema.rows.c.key.in_(some)).order_by(schema.rows.c.attempt)
                newest |= {line["key"]: row_of(dict(line), ()) for line in connection.execute(query).mappings()}
        return newest

    def rows(
        self,
        run: str | None = None,
        spec: str | None = None,
        key: str | None = None,
        all_attempts: bool = False,
        values: bool = True,
    ) -> Iterator[Row]:
        """Yield rows in the order in which they were inserted: of one run, of one spec, of one key, or all.

        Of each key the last attempt, unless ``all_attempts``; of a run the rows that it consists of. Without ``values``
        the rows have none, which is faster.
        """
        query = select(schema.rows).order_by(schema.rows.c.id)
        if run is not None:
            query = query.join(schema.run_rows, schema.run_rows.c.row == schema.rows.c.id)
            query = query.where(schema.run_rows.c.run == run)
        if spec is not None:
            query = query.where(schema.rows.c.spec == spec)
        if key is not None:
            query = query.where(schema.rows.c.key == key)
        if run is None and not all_attempts:
            later = schema.rows.alias("later")
            newer = select(later.c.id).where(later.c.key == schema.rows.c.key, later.c.attempt > schema.rows.c.attempt)
            query = query.where(~newer.exists())
        yield from self._rows(query, values)

    def _rows(self, query: Select[Any], with_values: bool) -> Iterator[Row]:
        """Yield rows page by page, so that neither the database nor this process holds all of them at once."""
        last = -1
        while True:
            page = query.where(schema.rows.c.id > last).limit(_AT_ONCE)
            with self._reading() as connection:
                lines = list(connection.execute(page).mappings())
                values = _values(connection, [line["id"] for line in lines] if with_values else [])
            for line in lines:
                yield row_of(dict(line), values.get(line["id"], ()))
            if len(lines) < _AT_ONCE:
                return
            last = lines[-1]["id"]

    def report(self, row: Row) -> Report | None:
        """Return the report of a row, with its checksum checked; None if it has none."""
        content = self.report_json(row)
        if content is None:
            return None
        report = parse(content, f"the report of row {row.id}")
        if not isinstance(report, Report):
            raise StoreError(f"the report of row {row.id} holds a comparison")
        return report

    def report_json(self, row: Row) -> bytes | None:
        """Return the report of a row as the file that `Report.save` writes; None if it has none."""
        if not row.checksum:
            return None
        query = select(schema.reports.c.content).where(schema.reports.c.checksum == row.checksum)
        with self._reading() as connection:
            content = connection.execute(query).scalar()
        if content is None:
            raise StoreError(f"the report of row {row.id} is not in the store")
        try:
            return zlib.decompress(content)
        except zlib.error as error:
            raise StoreError(f"the report of row {row.id} is damaged: {error}") from error

    def runs(self) -> list[Run]:
        """Return all runs, the oldest first."""
        query = select(schema.runs, schema.run_ends.c.ended, schema.run_ends.c.outcome)
        query = query.outerjoin(schema.run_ends, schema.run_ends.c.run == schema.runs.c.run)
        with self._reading() as connection:
            lines = list(connection.execute(query.order_by(schema.runs.c.started, schema.runs.c.run)).mappings())
        names = ("run", "started", "machine", "commit")
        return [
            Run(
                **{name: line[name] for name in names},
                plan=decoded(line["plan"]),
                facts=decoded(line["facts"]),
                ended=line["ended"] or "",
                outcome=line["outcome"] or "",
            )
            for line in lines
        ]

    def machines(self) -> dict[str, Mapping[str, str]]:
        """Return the facts of every kind of machine, by its digest."""
        with self._reading() as connection:
            return {line.machine: decoded(line.facts) for line in connection.execute(select(schema.machines))}

    # Transactions -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        options = {"writes": True}
        with (
            self._errors("written"),
            self._engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._errors("read"), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise StoreError(f"the store {self.url} cannot be {done}: {_cause(error)}") from error


class _TakenError(Exception):
    """Raised if another audit has inserted the same attempt of the same key meanwhile."""


def now() -> str:
    """Return the moment as ISO 8601 in UTC, with microseconds, so that texts sort as moments do."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _values(connection: Connection, ids: list[int]) -> dict[int, list[Mapping[str, Any]]]:
    grouped: dict[int, list[Mapping[str, Any]]] = {}
    if ids:
        query = select(schema.measured).where(schema.measured.c.row.in_(ids)).order_by(schema.measured.c.index)
        for line in connection.execute(query).mappings():
            grouped.setdefault(line["row"], []).append(dict(line))
    return grouped


def _insert_machine(connection: Connection, machine: str, facts: Mapping[str, str]) -> None:
    _insert_once(connection, schema.machines, {"machine": machine, "facts": encoded(dict(facts))})


def _insert_report(connection: Connection, checksum: str, content: str) -> None:
    _insert_once(connection, schema.reports, {"checksum": checksum, "content": zlib.compress(content.encode(), 6)})


def _insert_once(connection: Connection, table: Any, values: Mapping[str, Any]) -> None:
    """Insert a line unless there is one with its primary key, which then is the same."""
    from sqlalchemy.dialects import postgresql, sqlite

    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(dialect.insert(table).values(**values).on_conflict_do_nothing())


def _checksum_of(content: str) -> str:
    import json

    return str(json.loads(content)["checksum"])


def _file_of(url: URL) -> Path | None:
    """Return the file of an SQLite store; None for a database in memory, and for other databases."""
    in_memory = not url.database or url.database == ":memory:"
    return None if url.get_backend_name() != "sqlite" or in_memory else Path(str(url.database))


def _require_file(path: Path, create: bool) -> None:
    if not path.exists() and not create:
        raise StoreError(f"there is no store {str(path)!r}; give the path or URL that an audit wrote to")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"there is no folder {str(path.absolute().parent)!r} for the store {path.name!r}")


def _shown(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _cause(error: DBAPIError) -> str:
    """Return what the database says in one line, and what to do where that is known."""
    message = " ".join(str(error.orig).split())
    if "full" in message or "No space" in message or "53100" in str(getattr(error.orig, "sqlstate", "")):
        return f"{message}; make room and run the same command again: it goes on where it ended"
    return message
