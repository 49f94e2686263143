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
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn
from weakref import WeakValueDictionary

from .namespace_imports import Importlib, make_imported_spec
from .path_names import escape, find_path, without_number
from .search_path import make_absolute, path_restored

__all__ = ["Namespace", "find_namespace", "in_plain_names", "modules_kept_visible"]

__path__: list[str] = []  # importlib searches for submodules of a module that has a path

_PREFIX = f"{__name__}."


class Namespace:
    """The modules in a file's folder, as the file imports them; for a folder, as its modules import each other."""

    def __init__(self, path: Path, key: str) -> None:
        self.name: str = _PREFIX + key
        self.file: Path | None = None if path.is_dir() else path
        self.folder: str = str(path if path.is_dir() else path.parent)
        #: The folders in which modules are searched, and those among them that belong to the file.
        self.path: list[str] = [self.folder, *sys.path]
        self.own_folders: list[str] = [self.folder]
        self.builtins: dict[str, Any] = {**vars(builtins), "__import__": self.import_for_code}
        self.package: ModuleType = self.new_module(ModuleSpec(self.name, None, is_package=True))
        self.package.__path__ = self.own_folders
        #: The imported modules by full name, and the state of their files when they were imported.
        self.modules: dict[str, ModuleType] = {self.name: self.package}
        self._files: dict[str, _FileState | None] = {}
        #: What `holds` has answered, by the first part of a module's name.
        self._answers: dict[str, bool] = {}
        self._loads = 0
        self.is_in_use: bool = False
        #: While it is in use: the folders in which the caller searches, and its modules that are out of the way.
        self._callers_path: set[str] = set()
        self._hidden: dict[str, ModuleType] = {}

    def new_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module whose ``import`` statements look in this namespace."""
        module = ModuleType(spec.name)
        module.__dict__["__builtins__"] = self.builtins
        if spec.name == self.name:
            module.__spec__, module.__package__ = spec, spec.name
        return module

    @property
    def main(self) -> str:
        """The name of the file's module within the namespace; empty for the namespace of a folder."""
        return escape(self.file.stem, keep="_") if self.file else ""

    def load_main(self) -> ModuleType:
        """Run the file and return its module: a new one each time."""
        self._loads += 1
        suffix = f"__{self._loads}" if self._loads > 1 else ""
        return importlib.import_module(f"{self.name}.{self.main}{suffix}")

    # Finding modules ------------------------------------------------------------------------------------------------

    def holds(self, name: str) -> bool:
        """Return whether a module belongs to this namespace: whether it is in a folder that belongs to the file."""
        top = name.partition(".")[0]
        if self.is_in_use or top not in self._answers:  # while it is in use, its code may add folders to the path
            self._answers[top] = self._is_first_here(top)
        return self._answers[top]

    def _is_first_here(self, top: str) -> bool:
        """Return whether a search along the path finds a module in one of the file's folders first."""
        if top in sys.builtin_module_names or (top in sys.stdlib_module_names and top in sys.modules):
            return False  # a module that Python itself has imported is not searched for again
        if top == self.main:
            return True
        own_folders = self._current_folders()
        if all(PathFinder.find_spec(top, [folder]) is None for folder in own_folders):
            return False
        holds_portion = False  # a folder without __init__.py: a portion of a namespace package
        for folder in sys.path if self.is_in_use else self.path:
            spec = PathFinder.find_spec(top, [folder])
            if spec is None:
                continue
            is_own = folder in own_folders
            if spec.loader is not None:  # a module or a regular package, which wins over portions before it
                return is_own and not _is_installed(top, spec)
            holds_portion = holds_portion or is_own
        return holds_portion

    def _current_folders(self) -> list[str]:
        """Return the file's folder, and the folders that its code has added to ``sys.path``."""
        if not self.is_in_use:
            return self.own_folders
        return [*self.own_folders, *(folder for folder in sys.path if folder not in self._callers_path)]

    def find_spec(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return the spec of a module of this namespace by its full name; None if there is none."""
        if fullname in self.modules:
            return make_imported_spec(fullname, self.modules[fullname])
        parent, _, name = fullname.rpartition(".")
        if parent == self.name and self.file is not None and without_number(name) == self.main:
            spec = spec_from_file_location(fullname, self.file)
        else:
            spec = PathFinder.find_spec(fullname, self._current_folders() if parent == self.name else path)
        if spec is not None and isinstance(spec.loader, (SourceFileLoader, SourcelessFileLoader)):
            spec.loader.create_module = self.new_module  # type: ignore[method-assign]
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader.path_stats = _compare_with_no_cache  # type: ignore[method-assign]
        return spec

    # Imports --------------------------------------------------------------------------------------------------------

    def import_for_code(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        """Import a module for code of this namespace: its ``import`` statements call this."""
        if level or not self.holds(name):
            module = builtins.__import__(name, globals, locals, fromlist, level)
            return Importlib(self.name, self.holds) if module is importlib else module
        try:
            if _loading and _loading[-1].serves(self):
                self._hide([name.partition(".")[0]])
                return builtins.__import__(name, fromlist=fromlist)  # by its plain name, which pickle looks up
            if fromlist:
                return builtins.__import__(f"{self.name}.{name}", fromlist=fromlist)
            importlib.import_module(f"{self.name}.{name}")
            return importlib.import_module(f"{self.name}.{name.partition('.')[0]}")
        except ImportError as error:
            error.name, error.msg = in_plain_names(error.name or ""), in_plain_names(str(error))
            raise

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Make the modules of the folder importable by their plain names inside the block.

        While a file is loaded, its code or a library may look modules up by name: ``sys.modules[name]``,
        ``importlib.import_module("models.net")``, ``pickle.load``. At the end, the caller's modules of the same names
        and ``sys.path`` are restored.
        """
        with path_restored():
            self._callers_path = set(sys.path)
            self._hidden = {}
            self._hide(top for top in {name.partition(".")[0] for name in sys.modules} if self.holds(top))
            finder = _PlainNames(self)
            _loading.append(finder)
            sys.path.insert(0, self.folder)
            sys.meta_path.insert(0, finder)
            sys.modules.update(self.modules)
            self.is_in_use = True
            try:
                yield
            finally:
                self._leave(finder)

    def _leave(self, finder: _PlainNames) -> None:
        """End the use: keep what the file's code has imported and added, and put back what the caller had."""
        self._keep_path()  # while it is in use: the folders that the code has added are told by the path
        self.is_in_use = False
        self._answers.clear()
        _loading.pop()
        sys.meta_path.remove(finder)
        self._drop_plain_names(finder.names)  # before the full names go too, by which these modules are known
        self._keep_modules()
        sys.modules.update(self._hidden)
        self.builtins.update({**vars(builtins), "__import__": self.import_for_code})

    def _keep_path(self) -> None:
        """Keep the folders in which the file's code searches: the caller's path is restored."""
        added = [folder for folder in self._current_folders()[1:] if folder != self.folder]
        self.own_folders[1:] = map(make_absolute, added)
        self.path = [make_absolute(folder) for folder in sys.path]

    def _hide(self, tops: Iterable[str]) -> None:
        """Remove other modules of these names from ``sys.modules`` while this namespace is in use."""
        tops = set(tops)
        for name, module in list(sys.modules.items()):
            # Only these are asked for their names: some modules import others when they are asked anything.
            if name.partition(".")[0] in tops and not str(getattr(module, "__name__", "")).startswith(f"{self.name}."):
                self._hidden[name] = sys.modules.pop(name)

    def _drop_plain_names(self, plain_names: set[str]) -> None:
        """Remove this namespace's modules from ``sys.modules`` where they stand under other names than their full ones.

        ``plain_names`` are names under which they were found; their code may have stored them under others.
        """
        ids = {id(module) for module in self.modules.values()}
        ids |= {id(module) for name, module in list(sys.modules.items()) if name.startswith(f"{self.name}.")}
        for name, module in list(sys.modules.items()):
            if (name in plain_names or id(module) in ids) and not name.startswith(_PREFIX):
                del sys.modules[name]

    def _keep_modules(self) -> None:
        """Keep this namespace's modules here, and remove them from ``sys.modules`` unless they are to stay visible."""
        for name in list(sys.modules):
            if not f"{name}.".startswith(f"{self.name}."):
                continue
            self.modules[name] = sys.modules[name] if _visible_blocks else sys.modules.pop(name)
            file = getattr(self.modules[name], "__file__", None)
            if file and file not in self._files:
                self._files[file] = _read_state(file)

    def is_current(self) -> bool:
        """Return whether the files of the modules are unchanged since they were imported."""
        return all(_read_state(file) == state for file, state in self._files.items())


class _Finder:
    """Finds the modules of namespaces by their full names."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        key = fullname.removeprefix(_PREFIX).partition(".")[0]
        namespace = _namespaces.get(key) or _rebuild(key)
        return namespace.find_spec(fullname, path) if namespace else None


def _compare_with_no_cache(path: str) -> NoReturn:
    """Have a file compiled from its source each time, by raising what a file system without times would.

    Python takes its cache for that of a file with the same size and second, also where it was saved twice in one.
    """
    raise OSError


class _PlainNames:
    """Finds the modules of one namespace by their plain names while a file is loaded."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.thread = threading.get_ident()
        self.callers_path = list(sys.path)
        #: The plain names of the modules that it has found.
        self.names: set[str] = set()

    def serves(self, namespace: Namespace) -> bool:
        return self.namespace is namespace and self.thread == threading.get_ident()

    def find_spec(self, fullname: str, path: Any = None, target: object = None) -> ModuleSpec | None:
        if fullname.startswith(_PREFIX) or threading.get_ident() != self.thread or not self.namespace.holds(fullname):
            return None
        full = f"{self.namespace.name}.{fullname}"
        try:
            module = importlib.import_module(full)
        except ModuleNotFoundError as error:
            if f"{full}.".startswith(f"{error.name}."):
                return None
            raise
        self.names.add(fullname)
        return make_imported_spec(fullname, module)


def find_namespace(path: Path) -> Namespace:
    """Return the namespace of a file or folder: an existing one if its files are unchanged, otherwise a new one."""
    path = path.resolve()
    key = escaped = escape(str(path))
    number = 1
    while (existing := _namespaces.get(key)) is not None:
        if existing.is_current() and not existing.is_in_use:
            return existing
        number += 1
        key = f"{escaped}__{number}"
    namespace = _namespaces[key] = Namespace(path, key)
    return namespace


@contextmanager
def modules_kept_visible() -> Iterator[None]:
    """Keep the modules of namespaces in ``sys.modules`` inside the block, for code that looks its module up there."""
    _visible_blocks.append(True)
    try:
        yield
    finally:
        _visible_blocks.pop()
        for name in [name for name in list(sys.modules) if name.startswith(_PREFIX) and not _visible_blocks]:
            module = sys.modules.pop(name)
            namespace = _namespaces.get(name.removeprefix(_PREFIX).partition(".")[0])
            if namespace is not None:
                namespace.modules[name] = module


def in_plain_names(text: str) -> str:
    """Return a text with the modules of namespaces under their plain names, as their code imports them."""
    return re.sub(rf"{re.escape(_PREFIX)}\w+\.(\w+?)(__\d+)?\b", r"\1", text)


def _is_installed(name: str, spec: ModuleSpec) -> bool:
    """Return whether a module in a folder is the one that all other code imports under its name.

    It is imported from that file already, or its package is installed from this folder (``pip install -e .``).
    """
    imported = getattr(sys.modules.get(name), "__spec__", None)
    if imported is not None and not imported.name.startswith(_PREFIX) and _is_of_one_file(imported, spec):
        return True
    installed = _find_installed(name)
    return installed is not None and _is_of_one_file(installed, spec)


def _is_of_one_file(first: ModuleSpec, second: ModuleSpec) -> bool:
    return first.origin is not None and first.origin == second.origin


def _find_installed(name: str) -> ModuleSpec | None:
    """Return the spec of a module for other code than the file's: without the folders of the script and of the shell.

    Finders of editable installations are asked for each module that no folder has.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    implicit = {"", str(Path(script).absolute().parent) if script else ""}  # Python itself puts these on the path
    path = [folder for folder in (_loading[0].callers_path if _loading else sys.path) if folder not in implicit]
    installed = PathFinder.find_spec(name, path)
    for finder in sys.meta_path:
        if "editable" in type(finder).__module__ or "editable" in getattr(finder, "__module__", ""):
            installed = installed or finder.find_spec(name, None, None)
    return installed


def _rebuild(key: str) -> Namespace | None:
    """Return the namespace of a key that another process has made, for objects that were pickled there."""
    path = find_path(key)
    if not (path.is_absolute() and path.exists()):
        return None
    namespace = _namespaces[key] = Namespace(path, key)
    return namespace


class _FileState(NamedTuple):
    """What tells a file from a later one at its path."""

    modified_ns: int
    size: int


def _read_state(file: str) -> _FileState | None:
    """Return the state of a file; None if there is none."""
    try:
        facts = Path(file).stat()
    except OSError:
        return None
    return _FileState(facts.st_mtime_ns, facts.st_size)


_namespaces: WeakValueDictionary[str, Namespace] = WeakValueDictionary()
#: The files that are being loaded: the caller's first, then those that its code loads.
_loading: list[_PlainNames] = []
#: The open `modules_kept_visible` blocks.
_visible_blocks: list[bool] = []
sys.meta_path.insert(0, _Finder)  # before the path finder, which could find the modules too
