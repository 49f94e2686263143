"""Public names that are imported at their first use, so that a package is cheap to import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names", "module_of_each"]


def module_of_each(names: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name, from the names of each module, with blanks between them.

    >>> module_of_each({".costs": "Cost Shape"})
    {'Cost': '.costs', 'Shape': '.costs'}
    """
    return {name: module for module, text in names.items() for name in text.split()}


def lazy_names(
    package: str, names: Mapping[str, str], requirement: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package from its public names, each with its module.

    A relative module name is relative to the package. A name that is not listed raises `AttributeError`; a name whose
    framework is missing raises `BackendNotInstalledError`, which says to install ``requirement``; a name of another
    package of profilerkit that is missing, `NotOfferedError`.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(names[name], package), name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("profilerkit_") and "." not in (error.name or ""):
                from ..errors import NotOfferedError

                raise NotOfferedError(
                    f"{package}.{name} cannot be used: the package {error.name} is missing, which comes with "
                    "profilerkit; install profilerkit again"
                ) from error
            if not requirement or (error.name or "").startswith("profilerkit"):
                raise
            from ..errors import BackendNotInstalledError

            raise BackendNotInstalledError(
                f"{package}.{name} cannot be used: {error}; install it with: pip install '{requirement}'"
            ) from error
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return get, list_names
