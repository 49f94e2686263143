"""Public names that are imported at their first use, so that a package is cheap to import."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["install_lazy_names", "module_of_each"]


def module_of_each(names: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name, from the names of each module, with blanks between them.

    >>> module_of_each({".costs": "Cost Shape"})
    {'Cost': '.costs', 'Shape': '.costs'}
    """
    return {name: module for module, text in names.items() for name in text.split()}


def install_lazy_names(package: str, names: Mapping[str, str], requirement: str = "") -> None:
    """Give a package a ``__getattr__`` and a ``__dir__`` for its public names.

    Type checkers see neither: they read the imports under ``TYPE_CHECKING``, and find a misspelt name.

    Args:
        package: The name of the package.
        names: The module of each public name; a relative one is relative to the package.
        requirement: The package to install if the framework of the package is missing; a name that needs the framework
            then raises `BackendNotInstalledError`.
    """
    module = sys.modules[package]

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(names[name], package), name)
        except ModuleNotFoundError as error:
            explained = _explain_missing(f"{package}.{name}", error, requirement)
            if explained is None:
                raise
            raise explained from error
        setattr(module, name, value)  # the next use does not come here
        return value

    def list_names() -> list[str]:
        return sorted({*vars(module), *names})

    vars(module).update(__getattr__=get, __dir__=list_names)


def _explain_missing(name: str, error: ModuleNotFoundError, requirement: str) -> Exception | None:
    """Return the error to raise for a missing module; None if the original error says enough."""
    from ..errors import BackendNotInstalledError, NotOfferedError  # here, so that the import of a package stays cheap

    missing = error.name or ""
    if missing.startswith("profilerkit_") and "." not in missing:
        return NotOfferedError(
            f"{name} cannot be used: the package {missing} is missing, which comes with profilerkit; install "
            "profilerkit again"
        )
    if requirement and not missing.startswith("profilerkit"):
        return BackendNotInstalledError(f"{name} cannot be used: {error}; install it with: pip install '{requirement}'")
    return None
