"""What the checks of all parts of a saved file share: a value in short for a message, names that are there once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["require_once", "short"]


def short(value: Any) -> str:
    """Return a value as text of 60 characters at most, for a message."""
    text = repr(value[:60] if isinstance(value, (str, tuple)) else value)
    return text if len(text) < 60 else f"{text[:57]}..."


def require_once(names: Iterable[str], where: str, field: str) -> None:
    """Raise `ValueError`, naming the entry, if a name occurs twice: ``field`` of the entries of ``where``."""
    met: set[str] = set()
    for index, name in enumerate(names):
        if name in met:
            raise ValueError(f"{where}[{index}].{field} is {short(name)}, as that of one before it")
        met.add(name)
