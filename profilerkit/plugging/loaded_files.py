"""The modules of a file that a model is loaded from: a namespace of the file's own, apart from the caller's modules.

What the file imports from its folder is called ``<this module>.<the file's path, escaped>.<name>``, so two
files that both have a ``helper`` beside them never meet. The modules of a namespace have builtins of their own, whose
``__import__`` knows the namespace: ``import helper`` leads there at any time and in any thread, within ``forward`` too,
and nobody else's import does. The names can be imported, in another process too, so pickle, multiprocessing and
torch.compile find what they look up by name. Modules of installed packages are imported as ever.
"""

from __future__ import annotations

import builtins
import importlib
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

from ..process.locks import Lock

__all__ = ["Namespace", "in_plain_names", "kept_in_sight", "namespace_of", "path_kept"]

__path__: list[str] = []  # importlib asks the finders for modules in here, as it does for those of a package

_PREFIX = f"{__name__}."


class Namespace:
    """The modules in a file's folder, as that file sees them; with a folder in place of a file, as its modules do."""

    def __init__(self, place: Path, key: str) -> None:
        self.name = _PREFIX + key
        self.file = None if place.is_dir() else place
        self.folder = str(place if place.is_dir() else place.parent)
        #: Where the modules are looked for, and the places among these that are the file's own.
        self.path, self.own = [self.folder, *sys.path], [self.folder]
        self.builtins = {**vars(builtins), "__import__": self.import_module_of}
        self.package = self.new_module(ModuleSpec(self.name, None, is_package=True))
        self.package.__path__ = self.own
        #: What has been imported, by full name; and the state of the files then.
        self.modules = {self.name: self.package}
        self._files: dict[str, tuple[int, int]] = {}
        self._known: dict[str, bool] = {}
        self._loads = 0
        self.is_in_use = False
        self._hidden: dict[str, ModuleType] = {}

    def new_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module whose ``import`` statements lead to this namespace."""
        module = ModuleType(spec.name)
        module.__dict__["__builtins__"] = self.builtins
        if spec.name == self.name:
            module.__spec__, module.__package__ = spec, spec.name
        return module

    @property
    def main(self) -> str:
        """The name of the file's own module within the namespace; empty for that of a folder."""
        return _escaped(self.file.stem, keep="_") if self.file else ""

    def load_main(self) -> ModuleType:
        """Run the file and return its module: a new one each time."""
        self._loads += 1
        again = f"__{self._loads}" if self._loads > 1 else ""
        return importlib.import_module(f"{self.name}.{self.main}{again}")

    # What is in here ------------------------------------------------------------------------------------------------

    def holds(self, name: str) -> bool:
        """Say whether a module's name leads to this namespace: it is found in a place of the file's own."""
        top = name.partition(".")[0]
        if self.is_in_use or top not in self._known:
            self._known[top] = self._finds(top)
        return self._known[top]

    def _finds(self, top: str) -> bool:
        if top in sys.builtin_module_names or (top in sys.stdlib_module_names and top in sys.modules):
            return False  # as everywhere: what Python itself has imported is not looked for again
        if top == self.main:
            return True
        own = self._own()
        if all(PathFinder.find_spec(top, [place]) is None for place in own):
            return False
        portion = False  # of a namespace package, which any package further on goes before
        for place in sys.path if self.is_in_use else self.path:
            spec = PathFinder.find_spec(top, [place])
            if spec is not None and spec.loader is not None:
                return place in own and not _is_installed(top, spec)
            portion = portion or (spec is not None and place in own)
        return portion

    def _own(self) -> list[str]:
        """Return the file's folder, and the places that its code has put on the path."""
        return [*self.own, *(place for place in sys.path if place not in self._callers)] if self.is_in_use else self.own

    def spec(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return how a module of this namespace is imported, by its full name; None where there is none."""
        if fullname in self.modules:
            ready = self.modules[fullname]
            return ModuleSpec(fullname, _Ready(ready), is_package=hasattr(ready, "__path__"))
        parent, _, name = fullname.rpartition(".")
        if parent == self.name and self.file is not None and re.sub(r"__\d+$", "", name) == self.main:
            spec = spec_from_file_location(fullname, self.file)
        else:
            spec = PathFinder.find_spec(fullname, self._own() if parent == self.name else path)
        if spec is not None and isinstance(spec.loader, (SourceFileLoader, SourcelessFileLoader)):
            spec.loader.create_module = self.new_module  # type: ignore[method-assign]
        return spec

    # Imports --------------------------------------------------------------------------------------------------------

    def import_module_of(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        """Import a module for code of this namespace: what its ``import`` statements call."""
        if level or not self.holds(name):
            found = builtins.__import__(name, globals, locals, fromlist, level)
            return _Importlib(self) if found is importlib else found
        try:
            if _loading and _loading[-1].serves(self):
                self._hide([name.partition(".")[0]])
                return builtins.__import__(name, fromlist=fromlist)  # by its plain name: pickle looks it up there
            if fromlist:
                return builtins.__import__(f"{self.name}.{name}", fromlist=fromlist)
            importlib.import_module(f"{self.name}.{name}")
            return importlib.import_module(f"{self.name}.{name.partition('.')[0]}")
        except ImportError as error:
            error.name, error.msg = in_plain_names(error.name or ""), in_plain_names(str(error))
            raise

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have whoever imports by name find the modules of the folder meanwhile, and nothing of it remain afterwards.

        While a file is loaded, its code may look modules up by name, or have libraries do so: ``sys.modules[name]``,
        ``importlib.import_module("models.net")``, ``pickle.load``. What the caller has imported under these names is
        put back at the end, as is ``sys.path``.
        """
        with path_kept():
            self._callers = set(sys.path)
            hidden = self._hidden = {}
            self._hide(name for name in {each.partition(".")[0] for each in sys.modules} if self.holds(name))
            finder = _PlainNames(self)
            _loading.append(finder)
            sys.path.insert(0, self.folder)
            sys.meta_path.insert(0, finder)
            sys.modules.update(self.modules)
            self.is_in_use = True
            try:
                yield
            finally:
                self.own[1:] = [_absolute(place) for place in self._own()[1:] if place != self.folder]
                self.path = [_absolute(place) for place in sys.path]
                self.is_in_use = False
                self._known.clear()
                _loading.pop()
                sys.meta_path.remove(finder)
                self._take_modules(finder.names)
                sys.modules.update(hidden)
                self.builtins.update({**vars(builtins), "__import__": self.import_module_of})

    def _hide(self, tops: Iterable[str]) -> None:
        """Take modules of these names out of sight that are not this namespace's own, until it is no longer in use."""
        tops = set(tops)
        for name, module in list(sys.modules.items()):
            mine = str(getattr(module, "__name__", "")).startswith(f"{self.name}.")
            if name.partition(".")[0] in tops and not mine:
                self._hidden[name] = sys.modules.pop(name)

    def _take_modules(self, plain: set[str]) -> None:
        own = {id(module) for module in self.modules.values()}
        own |= {id(module) for name, module in list(sys.modules.items()) if name.startswith(f"{self.name}.")}
        for name in [each for each, module in list(sys.modules.items()) if each in plain or id(module) in own]:
            if not name.startswith(_PREFIX):
                del sys.modules[name]
        for name in [each for each in list(sys.modules) if f"{each}.".startswith(f"{self.name}.")]:
            self.modules[name] = sys.modules[name] if _state_of_all.keeping else sys.modules.pop(name)
            file = getattr(self.modules[name], "__file__", None)
            if file and file not in self._files:
                self._files[file] = _state(file)

    def is_current(self) -> bool:
        """Say whether the files of the modules are what they were when these were imported."""
        return all(_state(file) == state for file, state in self._files.items())


class _Finder:
    """Finds the modules of namespaces by their full names."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        key = fullname.removeprefix(_PREFIX).partition(".")[0]
        namespace = _namespaces.get(key) or _built_again(key)
        return namespace.spec(fullname, path) if namespace else None


class _PlainNames:
    """Finds the modules of one namespace by the names that its code has for them, while a file is loaded."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace, self.thread, self.names = namespace, threading.get_ident(), set[str]()
        self.callers_path = list(sys.path)

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
        return ModuleSpec(fullname, _Ready(module), is_package=hasattr(module, "__path__"))


class _Ready(Loader):
    """Loads a module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # importlib has put the one in its place by which it was found


class _Importlib(ModuleType):
    """What code of a namespace has for ``importlib``: its ``import_module`` knows the modules of the folder."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__("importlib")
        self.__dict__["import_module"] = lambda name, package=None: importlib.import_module(
            f"{namespace.name}.{name}" if name[:1] != "." and namespace.holds(name) else name, package
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib, name)


def namespace_of(place: Path) -> Namespace:
    """Return the namespace of a file, or of a folder: the one there is while its files are unchanged, or a new one."""
    place = place.resolve()
    key = escaped = _escaped(str(place))
    number = 1
    while (found := _namespaces.get(key)) is not None:
        if found.is_current() and not found.is_in_use:
            return found
        number += 1
        key = f"{escaped}__{number}"
    made = _namespaces[key] = Namespace(place, key)
    return made


@contextmanager
def path_kept() -> Iterator[None]:
    """Put ``sys.path`` back at the end; what loads a file in another thread waits, since it changes the path too."""
    with _state_of_all.lock:
        path, before = sys.path, list(sys.path)
        try:
            yield
        finally:
            sys.path = path
            sys.path[:] = before


@contextmanager
def kept_in_sight() -> Iterator[None]:
    """Leave the modules of namespaces in ``sys.modules`` meanwhile, for code that looks its own module up there."""
    _state_of_all.keeping += 1
    try:
        yield
    finally:
        _state_of_all.keeping -= 1
        for name in [each for each in list(sys.modules) if each.startswith(_PREFIX) and not _state_of_all.keeping]:
            module = sys.modules.pop(name)
            namespace = _namespaces.get(name.removeprefix(_PREFIX).partition(".")[0])
            if namespace is not None:
                namespace.modules[name] = module


def in_plain_names(text: str) -> str:
    """Return a text in which the modules of namespaces have the names that their own code has for them."""
    return re.sub(rf"{re.escape(_PREFIX)}\w+\.(\w+?)(__\d+)?\b", r"\1", text)


def _is_installed(name: str, spec: ModuleSpec) -> bool:
    """Say whether a module that is found in a folder is the one that anyone else gets under its name.

    It has been imported from that file already, or its package is installed from this folder (``pip install -e .``).
    """
    there = getattr(sys.modules.get(name), "__spec__", None)
    if (
        there is not None
        and not there.name.startswith(_PREFIX)
        and there.origin is not None
        and there.origin == spec.origin
    ):
        return True
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    unasked = {"", str(Path(script).absolute().parent) if script else ""}  # Python itself puts these on the path
    callers = [place for place in (_loading[0].callers_path if _loading else sys.path) if place not in unasked]
    found = PathFinder.find_spec(name, callers)
    for finder in sys.meta_path:
        if "editable" in type(finder).__module__ or "editable" in getattr(finder, "__module__", ""):
            found = found or finder.find_spec(name, None, None)
    return found is not None and found.origin is not None and found.origin == spec.origin


def _absolute(place: str) -> str:
    return str(Path(place).absolute()) if place else place


def _escaped(text: str, keep: str = "") -> str:
    return "".join(each if (each.isascii() and each.isalnum()) or each in keep else f"_{ord(each):x}_" for each in text)


def _built_again(key: str) -> Namespace | None:
    """Return the namespace of a key that another process has made: what was pickled there is unpickled here."""
    place = Path(re.sub(r"_([0-9a-f]+)_", lambda found: chr(int(found[1], 16)), re.sub(r"__\d+$", "", key)))
    if not (place.is_absolute() and place.exists()):
        return None
    made = _namespaces[key] = Namespace(place, key)
    return made


def _state(file: str) -> tuple[int, int]:
    try:
        facts = Path(file).stat()
    except OSError:
        return (-1, -1)
    return (facts.st_mtime_ns, facts.st_size)


class _StateOfAll:
    """What concerns all namespaces: one file is loaded at a time; and whether modules are to stay in sight."""

    keeping = 0

    def __init__(self) -> None:
        self.renew_lock()

    def renew_lock(self) -> None:
        self.lock = Lock()


_namespaces: WeakValueDictionary[str, Namespace] = WeakValueDictionary()
#: The files that are being loaded: the caller's, and those that its code loads meanwhile.
_loading: list[_PlainNames] = []
_state_of_all = _StateOfAll()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_state_of_all.renew_lock)  # another thread may hold it, who is not in the child
sys.meta_path.insert(0, _Finder)  # before the finder of paths, which knows the folders of namespaces too
