"""Reports as what people look at: one form, one file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

__all__ = ["renderer", "untouched_random"]


@contextmanager
def untouched_random() -> Iterator[None]:
    """Put the state of Python's random numbers back at the end: rich draws some, for its styles."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


def renderer(form: str) -> ModuleType:
    """Return the module of a form, such as "console"; imported when it is first needed."""
    with untouched_random():
        return import_module(f".{form}", __name__)
