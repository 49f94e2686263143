"""Python's garbage collector, a setting of the whole process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .locks import undone_in_child

__all__ = ["collector_paused", "frozen_objects_found"]


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


@contextmanager
def frozen_objects_found() -> Iterator[None]:
    """Let `gc.get_referrers` and `gc.get_objects` find, inside the block, what `gc.freeze` has hidden from them.

    Servers freeze what they have loaded, so that no collection goes through it. Python cannot unfreeze some objects
    alone: after the block all objects that are alive are frozen, as after another call of `gc.freeze`. Where nothing
    was frozen, nothing changes.
    """
    if not gc.get_freeze_count():
        yield
        return
    gc.unfreeze()
    try:
        yield
    finally:
        gc.freeze()
