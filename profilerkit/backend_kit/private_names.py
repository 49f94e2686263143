"""Private names of a framework, which its next release may not have: all are read here, by their path.

Each backend has one file that uses this, ``compat.py``, which says what each name is for and what happens without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["find"]


def find(path: str) -> Any:
    """Return what a dotted path leads to, importing the modules on the way; None where there is no such name.

    >>> import os
    >>> find("os.path.join") is os.path.join
    True
    >>> find("os.path._no_such_name") is None
    True
    """
    parts = path.split(".")
    value: Any = import_module(parts[0])
    for index, part in enumerate(parts[1:], 2):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = import_module(".".join(parts[:index]))
            except ImportError:
                return None
    return value
