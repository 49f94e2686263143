"""Addresses of stores: the path of an SQLite file, or a URL of SQLAlchemy."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError as UrlError

from profilerkit.errors import StoreError

__all__ = ["find_file", "hide_password", "parse_url"]


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
    return re.sub(r"(?<=://)([^/:@]*):.*(?=@)", r"\1:***", str(store))


def find_file(url: URL, create: bool) -> Path | None:
    """Return the file of an SQLite store; None for a database in memory, and for other databases.

    Raises `StoreError` if there is no such file and none is to be made, or no folder for it.
    """
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    path = Path(str(url.database))
    if not path.exists() and not create:
        raise StoreError(f"there is no store {str(path)!r}; give the path or URL that an audit wrote to")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"there is no folder {str(path.absolute().parent)!r} for the store {path.name!r}")
    return path
