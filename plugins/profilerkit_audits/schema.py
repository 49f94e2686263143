"""The tables of a store, for SQLAlchemy.

Every table is append-only: lines are inserted and never changed or deleted. A run therefore has its beginning in
``runs`` and its end in ``run_ends``; a row that is measured again is a further row with a higher ``attempt``.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from profilerkit.errors import StoreError

__all__ = ["create", "insert_new", "is_created", "machines", "reports", "rows", "run_ends", "run_rows", "runs"]

#: The version of the tables; each one that was released has its own.
VERSION = 1
metadata: MetaData = MetaData()

version: Table = Table("profilerkit_store", metadata, Column("version", Integer, primary_key=True))

machines: Table = Table(
    "machines",
    metadata,
    Column("machine", String(64), primary_key=True, comment="digest of the facts that times depend on"),
    Column("facts", Text, nullable=False, comment="JSON: cpu, cores, memory, system"),
)

runs: Table = Table(
    "runs",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("started", String(40), nullable=False, index=True, comment="ISO 8601, UTC"),
    Column("content", Text, nullable=False, comment="JSON of profilerkit_audits.Run"),
    comment="one line for each `profilerkit audit`, and for each `profilerkit profile --store`",
)

run_ends: Table = Table(
    "run_ends",
    metadata,
    Column("run", String(64), ForeignKey("runs.run"), primary_key=True),
    Column("ended", String(40), nullable=False),
    Column("outcome", String(20), nullable=False, comment="done or interrupted"),
    comment="a run without a line was killed, or runs still",
)

reports: Table = Table(
    "reports",
    metadata,
    Column("checksum", String(64), primary_key=True, comment="the checksum inside of the report"),
    Column("content", LargeBinary, nullable=False, comment="what Report.save writes, compressed by zlib"),
)

#: SQLite counts up by itself only a column of the type INTEGER.
_ROW_ID = BigInteger().with_variant(Integer, "sqlite")

rows: Table = Table(
    "rows",
    metadata,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("key", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("spec", Text, nullable=False, index=True),
    Column("content", Text, nullable=False, comment="JSON of profilerkit_audits.Row"),
    UniqueConstraint("key", "attempt"),
)

run_rows: Table = Table(
    "run_rows",
    metadata,
    Column("run", String(64), ForeignKey("runs.run"), primary_key=True),
    Column("row", _ROW_ID, ForeignKey("rows.id"), primary_key=True, index=True),
    comment="the rows of a run: those that it measured, and those that were there already",
)


def is_created(connection: Connection) -> bool:
    """Return whether a database has the tables of a store; `StoreError` for those of something else."""
    present = set(inspect(connection).get_table_names()) & set(metadata.tables)
    if not present:
        return False
    number = connection.execute(select(version.c.version)).scalar() if version.name in present else None
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


def create(connection: Connection) -> None:
    """Make the tables of a store, unless another process has made them meanwhile."""
    if not is_created(connection):
        metadata.create_all(connection)
        connection.execute(version.insert().values(version=VERSION))


def insert_new(connection: Connection, table: Table, **values: Any) -> Any:
    """Insert a line; returns its primary key, or None if there is one like it already."""
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    key = next(iter(table.primary_key.columns))
    return connection.execute(dialect.insert(table).values(**values).on_conflict_do_nothing().returning(key)).scalar()
