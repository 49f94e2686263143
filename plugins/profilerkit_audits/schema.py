"""The tables of a store, for SQLAlchemy.

Every table is append-only: lines are inserted and never changed or deleted. A run therefore has its beginning in
``runs`` and its end in ``run_ends``; a row that is measured again is a further row with a higher ``attempt``.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from profilerkit.errors import StoreError

__all__ = ["create", "insert_new", "is_created", "machines", "reports", "rows", "run_ends", "run_rows", "runs"]

#: The version of the tables; each one that was released has its own.
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
    """Return whether a database has the tables of a store; `StoreError` for those of something else."""
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
    """Insert a line; returns its primary key, or None if there is one like it already."""
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    key = next(iter(table.primary_key.columns))
    return connection.execute(dialect.insert(table).values(**values).on_conflict_do_nothing().returning(key)).scalar()
