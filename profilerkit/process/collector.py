"""Python's garbage collector, a setting of the whole process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .locks import undone_in_child

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the garbage collector inside the block; if it was disabled before, nothing changes."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        with undone_in_child(gc.enable):
            yield
    finally:
        gc.enable()
