"""The modules of a file that a model is loaded from: a separate namespace, so that the caller's modules are unaffected.

The file, and each module that it imports from its folder, is named ``<this module>.<the file's path, escaped>.<name>``:
two files that each have a ``helper`` in their folder do not share it. The long names can be imported, in another
process too, so that pickle, multiprocessing and torch.compile find classes by name.

Code imports these modules by their plain names, as if its folder were on ``sys.path``. There are two ways:

- The modules of a namespace have builtins of their own, with an ``__import__`` that looks in the namespace: for their
  code, ``import helper`` finds the file's module at any time and in any thread, also within ``forward``.
- Libraries, such as ``pickle``, find a module by its plain name while the file is loaded (`Namespace.in_use`).

Modules of installed packages are imported as usual.
"""

from __future__ import annotations

import builtins
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ..process.files import read_stamp
from .search_path import SearchPath, path_restored

__all__ = ["Namespace", "find_namespace", "in_plain_names"]

__path__: list[str] = []  # importlib searches for submodules of a module that has a path

_PREFIX = f"{__name__}."


class Namespace:
    """The modules in a file's folder, as the file imports them; for a folder, as its modules import each other."""

    def __init__(self, path: Path, key: str) -> None:
        self.source: Path = path
        self.name: str = _PREFIX + key
        self.search_path = SearchPath(str(path if path.is_dir() else path.parent))
        self.builtins: dict[str, Any] = {**vars(builtins), "__import__": self._import_for_code}
        self.stamps: dict[str, str] = {}
        """The stamp of each file when it was imported."""
        self._loads = 0
        _namespaces[key] = self

    def load_main(self) -> ModuleType:
        """Run the file and return its module: a new one each time."""
        self._loads += 1
        return importlib.import_module(f"{self.name}.{_add_number(self.main_name, self._loads)}")

    @property
    def main_name(self) -> str:
        """The name of the file as a module, without the number that tells its loads apart."""
        stem = self.source.stem
        return stem if stem.isidentifier() else _escape(stem)

    def is_current(self) -> bool:
        """Return whether the files of the modules are unchanged since they were imported."""
        return all(read_stamp(file) == stamp for file, stamp in self.stamps.items())

    def holds(self, name: str) -> bool:
        """Return whether a module belongs to this namespace: whether it is in a folder that belongs to the file."""
        if self in _loading and self.search_path.read_changes():
            self._hide_others()
        return self.search_path.is_own(name.partition(".")[0])

    def _hide_others(self) -> None:
        """Take modules that have plain names of this namespace's out of ``sys.modules``, until the file is loaded."""
        for name in filter(self.holds, list(sys.modules)):
            del sys.modules[name]

    def import_module(self, name: str) -> ModuleType:
        """Import a module by its plain name: of this namespace, or else any other."""
        return importlib.import_module(f"{self.name}.{name}" if self.holds(name) else name)

    def _import_for_code(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        """Import a module for code of this namespace: its ``import`` statements call this."""
        if level or not self.holds(name):
            return builtins.__import__(name, globals, locals, fromlist, level)
        try:
            if _loading and _loading[-1] is self:  # code in C, as pickle's, calls this and then looks the plain name up
                return builtins.__import__(name, fromlist=fromlist)
            if fromlist:
                return builtins.__import__(f"{self.name}.{name}", fromlist=fromlist)
            self.import_module(name)
            return self.import_module(name.partition(".")[0])
        except ImportError as error:
            error.name, error.msg = in_plain_names(error.name or ""), in_plain_names(str(error))
            raise

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have libraries find the modules of the folder by their plain names inside the block.

        At the end, the caller's modules of the same names and ``sys.path`` are restored.
        """
        finder = _PlainNames(self)
        with path_restored():
            if self not in _loading:
                self.search_path.begin(_loading[0].search_path if _loading else None)
            _loading.append(self)
            sys.path.insert(0, self.search_path.own_folders[0])
            sys.meta_path.insert(0, finder)
            callers_modules = dict(sys.modules)
            self.search_path.read_changes()
            self._hide_others()
            try:
                yield
            finally:
                for name in finder.names:
                    sys.modules.pop(name, None)
                sys.modules.update({**callers_modules, **sys.modules})
                sys.meta_path.remove(finder)
                _loading.pop()


# Finding modules ------------------------------------------------------------------------------------------------------


class _PlainNames:
    """Finds the modules of a namespace by their plain names.

    Attributes:
        names: The names by which modules were found.
    """

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.names: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module by its plain name; None if it is not of the namespace."""
        fullname = f"{self.namespace.name}.{name}"
        if name.startswith(_PREFIX) or not self.namespace.holds(name) or find_spec(fullname) is None:
            return None
        self.names.add(name)
        return spec_from_loader(name, _OtherName(fullname))


class _OtherName(Loader):
    """Gives another name to the module of a full name."""

    def __init__(self, fullname: str) -> None:
        self.fullname = fullname

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self.fullname)


class _FullNames:
    """Finds the modules of all namespaces by their full names."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module by its full name; None if it is of no namespace."""
        if not fullname.startswith(_PREFIX):
            return None
        key, _, name = fullname.removeprefix(_PREFIX).partition(".")
        namespace = _namespaces.get(key) or _rebuild(key)
        if namespace is None:
            return None
        if not name:  # the package that has the modules of the namespace
            package = ModuleSpec(fullname, None, is_package=True)
            package.submodule_search_locations = namespace.search_path.own_folders
            return package
        if namespace.source.is_file() and re.fullmatch(rf"{re.escape(namespace.main_name)}(__\d+)?", name):
            spec = spec_from_file_location(fullname, namespace.source)
        else:
            spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _CodeLoader(fullname, spec.origin, namespace)
            namespace.stamps.setdefault(spec.origin, read_stamp(spec.origin))
        return spec


class _CodeLoader(SourceFileLoader):
    """Loads a module whose ``import`` statements look in a namespace."""

    def __init__(self, fullname: str, path: str, namespace: Namespace) -> None:
        super().__init__(fullname, path)
        self.namespace = namespace

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__dict__["__builtins__"] = self.namespace.builtins
        return module

    def path_stats(self, path: str) -> NoReturn:
        """Raise the error of a file system without times, so that Python compiles the file and uses no cache.

        Python uses a cache for any file of the same size and second, also for a file saved twice in a second.
        """
        raise OSError


# Namespaces and their names -------------------------------------------------------------------------------------------


def find_namespace(path: Path) -> Namespace:
    """Return the namespace of a file or folder: an existing one if its files are unchanged, otherwise a new one."""
    path = path.resolve()
    existing = [namespace for namespace in _namespaces.values() if namespace.source == path]
    current = next((namespace for namespace in existing if namespace.is_current()), None)
    return current or Namespace(path, _add_number(_escape(str(path)), len(existing) + 1))


def _rebuild(key: str) -> Namespace | None:
    """Return the namespace of a key that another process has made, for objects that were pickled there."""
    escaped = re.sub(r"__\d+$", "", key)
    path = Path(re.sub(r"_([0-9a-f]+)_", lambda match: chr(int(match[1], 16)), escaped))
    return Namespace(path, key) if path.is_absolute() and path.exists() else None


def _escape(text: str) -> str:
    """Return a text with its code in place of each character that is no letter or digit: ``_2f_my_2f_net_2e_py``."""
    return re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_", text)


def _add_number(name: str, number: int) -> str:
    """Return a name with a number that tells it from earlier ones: ``net__2``."""
    return f"{name}__{number}" if number > 1 else name


def in_plain_names(text: str) -> str:
    """Return a text with the modules of namespaces under their plain names, as their code imports them."""
    return re.sub(rf"{re.escape(_PREFIX)}\w+\.(\w+?)(__\d+)?\b", r"\1", text)


_namespaces: dict[str, Namespace] = {}
#: The files that are being loaded: the caller's first, then files that its code loads.
_loading: list[Namespace] = []
sys.meta_path.insert(0, _FullNames)  # before the path finder, which could find the modules too
