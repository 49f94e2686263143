"""Python's garbage collector, which is the process'."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .locks import undone_in_child

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from running, if it would, until the end."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        with undone_in_child(gc.enable):
            yield
    finally:
        gc.enable()
