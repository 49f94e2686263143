"""The modules of a package, found and not listed."""

from __future__ import annotations

import pkgutil
from collections.abc import Container, Iterable
from importlib import import_module
from types import ModuleType

__all__ = ["find_module_names", "import_modules"]


def import_modules(package: str, path: Iterable[str], but: Container[str] = ()) -> dict[str, ModuleType]:
    """Import the modules of a package and return them by name, in the order of their names.

    Args:
        package: The name of the package: ``__name__`` in its ``__init__``.
        path: Where its modules are: ``__path__``.
        but: The names of modules that are left out, and not imported.
    """
    return {name: import_module(f"{package}.{name}") for name in find_module_names(path, but)}


def find_module_names(path: Iterable[str], but: Container[str] = ()) -> list[str]:
    """Return the names of the modules in some folders, in order, without the names in ``but``."""
    return sorted(module.name for module in pkgutil.iter_modules(path) if module.name not in but)
