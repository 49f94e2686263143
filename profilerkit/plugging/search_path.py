"""``sys.path`` while a file is loaded: it is changed for the file, and the caller's is restored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..process.locks import Lock
from ..process.restoring import restored

__all__ = ["path_restored"]

#: Held while a file is loaded.
_LOCK = Lock()


@contextmanager
def path_restored() -> Iterator[None]:
    """Restore ``sys.path`` at the end; another thread that loads a file waits, since it changes the path too."""
    with _LOCK.block():
        path, entries = sys.path, list(sys.path)

        def put_back() -> None:
            sys.path = path
            sys.path[:] = entries

        with restored(put_back):
            yield
