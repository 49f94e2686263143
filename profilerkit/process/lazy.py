"""Public names that are imported at their first use, so that a package is cheap to import."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .foreign_names import INSTEAD

__all__ = ["install_lazy_names", "module_of_each"]


def module_of_each(names: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name, from the names of each module, with blanks between them.

    >>> module_of_each({".costs": "Cost Shape"})
    {'Cost': '.costs', 'Shape': '.costs'}
    """
    return {name: module for module, text in names.items() for name in text.split()}


def install_lazy_names(package: str, names: Mapping[str, str], requirement: str = "") -> None:
    """Give a package a ``__getattr__`` and a ``__dir__`` for its public names, each with its module.

    Type checkers see neither: they read the imports under ``TYPE_CHECKING``, and find a misspelt name.

    A relative module name is relative to the package. A name that is not listed raises `AttributeError`, or
    `ImportError` with what to use for a name of another profiler; a name whose
    framework is missing raises `BackendNotInstalledError`, which says to install ``requirement``; a name of another
    package of profilerkit that is missing, `NotOfferedError`.
    """

    def get(name: str) -> Any:
        if name not in names:
            if name in INSTEAD:  # no AttributeError, in whose place an import statement raises another message
                raise ImportError(f"{package} has no {name}, a name of another profiler; {INSTEAD[name]}")
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

    vars(sys.modules[package]).update(__getattr__=get, __dir__=list_names)
