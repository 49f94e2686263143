"""Python's garbage collector, a setting of the whole process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .restoring import restored

__all__ = ["collector_paused", "frozen_objects_found", "objects_aged"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the garbage collector inside the block; if it was disabled before, nothing changes."""
    if not gc.isenabled():
        yield
        return
    with restored(gc.enable):
        gc.disable()
        yield


def objects_aged() -> None:
    """Take all objects to be old ones, so that the next collections, those of young objects, do not go through them.

    It is for what is kept, such as imported libraries, after a pause of the collector: they are young until it goes on,
    and going through a million objects takes a quarter of a second. Nothing is collected. Garbage among them is found
    by the next full collection. Where something is frozen, nothing changes: Python cannot unfreeze some objects alone.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()  # to the oldest generation


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
    with restored(gc.freeze, in_child=False):
        gc.unfreeze()
        yield
