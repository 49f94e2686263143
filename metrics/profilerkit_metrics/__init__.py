"""The metrics of profilerkit, written once over the backend interface.

Every status key and every function of the modules here is a public name. They are found, not listed, when the first of
them is used; ``docs/make_tables.py`` writes the names for type checkers, ``__init__.pyi``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _public_names() -> dict[str, str]:
    from .discovery import find_public_names  # here: it imports every metric

    return find_public_names()


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_public_names())
    module = None if name.startswith("_") else _public_names().get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_public_names()})
