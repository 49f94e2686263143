"""Where modules are searched for: ``sys.path`` while a file is loaded, and for code that has nothing to do with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ..process.locks import Lock
from ..process.restoring import restored

__all__ = ["find_installed", "path_restored", "read_absolute_path"]

#: Held while a file is loaded.
_LOCK = Lock()


@contextmanager
def path_restored() -> Iterator[None]:
    """Restore ``sys.path`` at the end; another thread that loads a file waits, because it changes the path too."""
    with _LOCK.block():
        path, entries = sys.path, list(sys.path)

        def put_back() -> None:
            sys.path = path
            sys.path[:] = entries

        with restored(put_back):
            yield


def read_absolute_path() -> list[str]:
    """Return ``sys.path`` so that it stays the same wherever the process goes; "" stays as it is."""
    return [str(Path(folder).absolute()) if folder else folder for folder in sys.path]


def find_installed(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """Return the spec of a module for other code than the file's: without the folders of the script and of the shell.

    Finders of editable installations are asked for each module that no folder of ``path`` has.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    implicit = {"", str(Path(script).absolute().parent) if script else ""}  # Python itself puts these on the path
    installed = PathFinder.find_spec(name, [folder for folder in path if folder not in implicit])
    for finder in sys.meta_path:
        if "editable" in type(finder).__module__ or "editable" in getattr(finder, "__module__", ""):
            installed = installed or finder.find_spec(name, None, None)
    return installed
