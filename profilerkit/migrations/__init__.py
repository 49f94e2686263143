"""The versions of the schema of stores, for Alembic: one file each; a file that was released is never changed."""
