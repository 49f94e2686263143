"""Bringing a store to today's schema, by Alembic, when it is opened."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect

from .. import migrations
from ..errors import StoreError
from .schema import metadata

__all__ = ["migrate", "revision_of"]


def migrate(connection: Connection) -> None:
    """Upgrade a store to today's schema within the connection's transaction; an empty database gets all tables.

    Raises `StoreError` for a store that a newer profilerkit wrote, and for a database that is no store.
    """
    script = _script()
    current, head = revision_of(connection), script.get_current_head()
    if current == head:
        return
    if current is None:
        _require_empty(connection)
    elif current not in {each.revision for each in script.walk_revisions()}:
        raise StoreError(
            f"the store has the schema {current!r}, and this profilerkit reads up to {head!r}; a newer one wrote "
            "it: upgrade profilerkit"
        )

    def steps(revision: object, context: MigrationContext) -> list[object]:
        return list(script._upgrade_revs("head", current))  # type: ignore[arg-type]

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
        environment.run_migrations()


def revision_of(connection: Connection) -> str | None:
    """Return the version of the schema of a store; None for a database without one."""
    return MigrationContext.configure(connection).get_current_revision()


def _script() -> ScriptDirectory:
    try:
        folder = str(Path(str(migrations.__file__)).parent)
        return ScriptDirectory(folder, version_locations=[folder])
    except CommandError as error:  # a broken installation
        raise StoreError(f"the migrations of stores cannot be read: {error}") from error


def _require_empty(connection: Connection) -> None:
    tables = set(inspect(connection).get_table_names())
    if tables & set(metadata.tables):
        names = ", ".join(sorted(tables & set(metadata.tables)))
        raise StoreError(f"the database has tables {names}, and is no store of profilerkit; use another one")
