"""Where modules are searched for: ``sys.path`` while a file is loaded, and which of its folders belong to the file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ..process.locks import Lock
from ..process.restoring import restored
from ..process.user_lines import is_loaded_file

__all__ = ["SearchPath", "path_restored"]

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


class SearchPath:
    """The folders in which the code of a file searches for modules, and those among them that belong to the file.

    `begin` notes ``sys.path`` before the file is loaded. Its code may add folders: `read_changes` finds those.

    Attributes:
        own_folders: The folder of the file, and the folders that its code has added to ``sys.path``.
        callers_path: The path of the caller: a module that is found there too is not the file's.
    """

    def __init__(self, folder: str) -> None:
        self.own_folders: list[str] = [folder]
        #: The answers of `is_own`, by the name of a module.
        self._answers: dict[str, bool] = {}
        self.begin(None)
        self._searched = [folder, *self.callers_path]

    def begin(self, outer: SearchPath | None) -> None:
        """Note the path before the file is loaded; ``outer`` is that of the file whose code loads it, if one does."""
        self._path_before = _read_absolute_path()
        self.callers_path: list[str] = self._path_before if outer is None else outer.callers_path
        self._read_last: list[str] = []

    def read_changes(self) -> bool:
        """Read ``sys.path`` if it has changed, and return whether it has: folders that are new are the file's."""
        if sys.path == self._read_last:
            return False
        self._read_last, self._searched = list(sys.path), _read_absolute_path()
        old = {*self._path_before, *self.own_folders}
        self.own_folders += [folder for folder in self._searched if folder not in old]
        self._answers.clear()
        return True

    def is_own(self, name: str) -> bool:
        """Return whether a search for a module finds it in one of the file's folders first, and the caller has not."""
        if name not in self._answers:
            module = self._find_own(name)
            self._answers[name] = module is not None and not _is_callers(module, self.callers_path)
        return self._answers[name]

    def _find_own(self, name: str) -> ModuleSpec | None:
        """Return the spec of a module that a search finds in one of the file's folders first; None for any other."""
        if name in sys.builtin_module_names or (name in sys.stdlib_module_names and name in sys.modules):
            return None  # a module that Python itself has imported is not searched for again
        module = PathFinder.find_spec(name, self.own_folders)
        if module is None:
            return None
        # A folder without __init__.py, whose origin is None, gives way to a module or package anywhere on the path.
        first = PathFinder.find_spec(name, self._searched)
        return module if first is not None and first.origin == module.origin else None


def _is_callers(module: ModuleSpec, path: Sequence[str]) -> bool:
    """Return whether code with this path gets a module from the same file: it is imported already, or installed.

    The file's folder may be the folder of a package which is installed from there (``pip install -e .``).
    """
    if module.origin is None:
        return False
    imported = getattr(sys.modules.get(module.name), "__spec__", None)
    if imported is not None and imported.origin == module.origin and not is_loaded_file(imported.name):
        return True
    installed = _find_installed(module.name, path)
    return installed is not None and installed.origin == module.origin


def _read_absolute_path() -> list[str]:
    """Return ``sys.path`` so that it stays the same wherever the process goes; "" stays as it is."""
    return [str(Path(folder).absolute()) if folder else folder for folder in sys.path]


def _find_installed(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """Return the spec of a module for other code than the file's: without the folders of the script and of the shell.

    A module that no other folder of ``path`` has may be of an editable installation, which has a finder.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    implicit = {"", str(Path(script).absolute().parent) if script else ""}  # Python itself puts these on the path
    installed = PathFinder.find_spec(name, [folder for folder in path if folder not in implicit])
    for finder in sys.meta_path:
        if "editable" in getattr(finder, "__module__", ""):  # setuptools, hatch and others name its module so
            installed = installed or finder.find_spec(name, None, None)
    return installed
