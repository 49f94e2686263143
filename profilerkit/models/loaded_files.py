"""The modules of a file that a model is loaded from: a separate namespace, so that the caller's modules are unaffected.

A module that the file imports from its folder is named ``<this module>.<the file's path, escaped>.<name>``, so that two
files that each have a ``helper`` in their folder do not share it. The modules of a namespace have separate builtins,
with an ``__import__`` that looks in the namespace: for their code, ``import helper`` finds the file's module at any
time and in any thread, also within ``forward``; other code is unaffected. The long names can be imported, in another
process too, so that pickle, multiprocessing and torch.compile find classes by name. Modules of installed packages are
imported as usual.
"""

from __future__ import annotations

import builtins
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
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
        self.path = SearchPath(str(path if path.is_dir() else path.parent))
        #: The plain names by which its modules were found meanwhile.
        self._plain_names: set[str] = set()
        #: The stamp of each file when it was imported.
        self._files: dict[str, str] = {}
        self._loads = 0
        self.importlib = ModuleType("importlib")
        vars(self.importlib).update(__getattr__=partial(getattr, importlib), import_module=self.import_module)
        self.builtins: dict[str, Any] = {}
        self._copy_builtins()
        self.package = ModuleType(self.name)
        self.package.__path__ = self.path.own_folders
        sys.modules[self.name] = self.package
        _namespaces[key] = self

    def _copy_builtins(self) -> None:
        self.builtins.update({**vars(builtins), "__import__": self.import_for_code})

    def load_main(self) -> ModuleType:
        """Run the file and return its module: a new one each time."""
        self._loads += 1
        return importlib.import_module(f"{self.name}.{_add_number(self._name_main(), self._loads)}")

    def _name_main(self) -> str:
        stem = self.source.stem
        return stem if stem.isidentifier() else _escape(stem)

    def is_current(self) -> bool:
        """Return whether the files of the modules are unchanged since they were imported."""
        return all(read_stamp(file) == stamp for file, stamp in self._files.items())

    # Finding modules ------------------------------------------------------------------------------------------------

    def holds(self, name: str) -> bool:
        """Return whether a module belongs to this namespace: whether it is in a folder that belongs to the file."""
        if self in _loading and self.path.read_changes():
            self._remove_others()
        return self.path.is_own(name.partition(".")[0], _loading[0].path.callers_path if _loading else sys.path)

    def _remove_others(self) -> None:
        """Remove modules of others from ``sys.modules`` where they have names of modules of the file."""
        for name in filter(self.holds, list(sys.modules)):
            if not str(getattr(sys.modules[name], "__name__", "")).startswith(f"{self.name}."):
                del sys.modules[name]

    def find_module(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return the spec of a module of this namespace by its full name; None if there is none."""
        if fullname == self.name:
            return spec_from_loader(fullname, _StoredLoader(lambda: self.package))
        if self.source.is_file() and re.fullmatch(rf"{re.escape(self.name)}\.{self._name_main()}(__\d+)?", fullname):
            spec = spec_from_file_location(fullname, self.source)
        else:
            spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _CodeLoader(fullname, spec.origin, self)
            self._files.setdefault(spec.origin, read_stamp(spec.origin))
        return spec

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of this namespace by its plain name, while the file is loaded."""
        if name.startswith(_PREFIX) or not self.holds(name):
            return None
        fullname = f"{self.name}.{name}"
        if find_spec(fullname) is None:
            return None
        self._plain_names.add(name)
        return spec_from_loader(name, _StoredLoader(partial(importlib.import_module, fullname)))

    # Imports --------------------------------------------------------------------------------------------------------

    def import_for_code(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        """Import a module for code of this namespace: its ``import`` statements call this."""
        if level or not self.holds(name):
            module = builtins.__import__(name, globals, locals, fromlist, level)
            return self.importlib if module is importlib else module
        try:
            if _loading and _loading[-1] is self:
                return builtins.__import__(name, fromlist=fromlist)  # by its plain name, which pickle looks up
            if fromlist:
                return builtins.__import__(f"{self.name}.{name}", fromlist=fromlist)
            self.import_module(name)
            return self.import_module(name.partition(".")[0])
        except ImportError as error:
            error.name, error.msg = in_plain_names(error.name or ""), in_plain_names(str(error))
            raise

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Import a module as `importlib.import_module` does; one of this namespace by its plain name."""
        is_own = not name.startswith(".") and self.holds(name)
        return importlib.import_module(f"{self.name}.{name}" if is_own else name, package)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Make the modules of the folder importable by their plain names inside the block.

        While a file is loaded, its code or a library may import modules by name: ``pickle.load``, a registry of
        classes. At the end, the caller's modules of the same names and ``sys.path`` are restored.
        """
        with path_restored():
            if self not in _loading:
                self.path.begin()
            _loading.append(self)
            sys.path.insert(0, self.path.own_folders[0])
            sys.meta_path.insert(0, self)
            callers_modules = dict(sys.modules)
            if self.path.read_changes():
                self._remove_others()
            try:
                yield
            finally:
                for name in self._plain_names:
                    sys.modules.pop(name, None)
                sys.modules.update({**callers_modules, **sys.modules})
                sys.meta_path.remove(self)
                _loading.pop()
                self._copy_builtins()


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


class _StoredLoader(Loader):
    """Gives a name to a module that has another one, or that is there already."""

    def __init__(self, find: Callable[[], ModuleType]) -> None:
        self.find = find

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = self.find()


class _Finder:
    """Finds the modules of namespaces by their full names."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        key = fullname.removeprefix(_PREFIX).partition(".")[0]
        namespace = _namespaces.get(key) or _rebuild(key)
        return namespace.find_module(fullname, path) if namespace else None


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
sys.meta_path.insert(0, _Finder)  # before the path finder, which could find the modules too
