"""The modules of a package, found and not listed; and what is done around an import that others make."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Container, Iterable
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["AroundImport", "import_modules"]


def import_modules(package: str, path: Iterable[str], but: Container[str] = ()) -> dict[str, ModuleType]:
    """Import the modules of a package and return them by name, in the order of their names.

    Args:
        package: The name of the package: ``__name__`` in its ``__init__``.
        path: Where its modules are: ``__path__``.
        but: The names of modules that are left out, and not imported.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(path))
    return {name: import_module(f"{package}.{name}") for name in names if name not in but}


class AroundImport:
    """Finds some modules, for ``sys.meta_path``: each is imported within a context, whoever imports it.

    Args:
        names: The modules, by their whole names.
        context: Returns the context.
    """

    def __init__(self, names: Container[str], context: Callable[[], AbstractContextManager[object]]) -> None:
        self.names = names
        self.context = context

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a module is as Python finds it, with a loader that loads it within the context."""
        spec = PathFinder.find_spec(name, path, target) if name in self.names else None
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            load: Callable[[ModuleType], None] = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module  # the loader is as others make it from here on
                with self.context():
                    load(module)

            loader.exec_module = exec_module
        return spec
