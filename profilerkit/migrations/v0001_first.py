"""The first schema: machines, runs and their ends, rows, what was measured, reports."""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

revision = "0001"
down_revision = None

metadata = MetaData()

#: SQLite counts up by itself only a column of the type INTEGER.
_ROW_ID = BigInteger().with_variant(Integer, "sqlite")

Table(
    "machines",
    metadata,
    Column("machine", String(64), primary_key=True, comment="digest of the facts that times depend on"),
    Column("facts", Text, nullable=False, comment="JSON: cpu, cores, memory, system"),
)

Table(
    "runs",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("started", String(40), nullable=False, comment="ISO 8601, UTC"),
    Column("plan", Text, nullable=False, comment="JSON of the plan as it was read"),
    Column("facts", Text, nullable=False, comment="JSON: engine, command, profilerkit, number of cases"),
    Column("machine", String(64), ForeignKey("machines.machine"), nullable=False),
    Column("commit", String(64), nullable=False),
    Index("runs_started", "started"),
)

Table(
    "run_ends",
    metadata,
    Column("run", String(64), ForeignKey("runs.run"), primary_key=True),
    Column("ended", String(40), nullable=False),
    Column("outcome", String(20), nullable=False, comment="done or interrupted"),
)

Table(
    "reports",
    metadata,
    Column("checksum", String(64), primary_key=True, comment="the checksum inside of the report"),
    Column("content", LargeBinary, nullable=False, comment="what Report.save writes, compressed by zlib"),
)

Table(
    "rows",
    metadata,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("key", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("run", String(64), ForeignKey("runs.run"), nullable=False),
    Column("spec", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("backend", String(100), nullable=False),
    Column("model_type", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("status", String(20), nullable=False, comment="complete, partial or failed"),
    Column("end", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("settings", Text, nullable=False, comment="JSON"),
    Column("flags", Text, nullable=False, comment="JSON: a list of texts"),
    Column("conditions", Text, nullable=False, comment="JSON"),
    Column("versions", Text, nullable=False, comment="JSON"),
    Column("tries", Text, nullable=False, comment="JSON"),
    Column("code", String(64), nullable=False),
    Column("commit", String(64), nullable=False),
    Column("machine", String(64), ForeignKey("machines.machine"), nullable=False),
    Column("seconds", Double, nullable=False),
    Column("peak_bytes", BigInteger),
    Column("created", String(40), nullable=False),
    Column("checksum", String(64), nullable=False, comment="of the report, empty if there is none"),
    UniqueConstraint("key", "attempt", name="rows_key_attempt"),
    Index("rows_spec", "spec"),
    Index("rows_run", "run"),
)

Table(
    "measured",
    metadata,
    Column("row", _ROW_ID, ForeignKey("rows.id"), primary_key=True),
    Column("metric", String(200), primary_key=True),
    Column("index", Integer, nullable=False, comment="the place of the metric in its report"),
    Column("value", Double, comment="for searching and sorting; counts beyond 2**53 are rounded here"),
    Column("exact", Text, nullable=False, comment="JSON of the value, with every digit of a count"),
    Column("unit", String(40), nullable=False),
    Column("completeness", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("low", Text, nullable=False, comment="JSON"),
    Column("high", Text, nullable=False, comment="JSON"),
    Column("samples", Integer, nullable=False),
    Column("noise", Double),
    Column("shown", Text, nullable=False),
    Index("measured_metric", "metric"),
)

Table(
    "run_rows",
    metadata,
    Column("run", String(64), ForeignKey("runs.run"), primary_key=True),
    Column("row", _ROW_ID, ForeignKey("rows.id"), primary_key=True),
    Index("run_rows_row", "row"),
)


def upgrade() -> None:
    """Create all tables."""
    metadata.create_all(op.get_bind())
