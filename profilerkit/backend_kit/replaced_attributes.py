"""Attributes of objects, classes and modules that have another value for a time, such as methods of a framework."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from profilerkit.process.restoring import restored

__all__ = ["replace_attribute"]

_ABSENT = object()


@contextmanager
def replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Have an attribute of an object, class or module another value meanwhile; one from a base class is so again."""
    before = vars(owner).get(name, _ABSENT)

    def restore() -> None:
        if before is not _ABSENT:
            setattr(owner, name, before)
        elif name in vars(owner):
            delattr(owner, name)

    with restored(restore):
        setattr(owner, name, value)
        yield
