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
    """Mark all objects as old, so that the next collections of young objects do not go through them.

    Used after a pause of the collector in which objects were created that stay, such as imported libraries: going
    through a million objects takes a quarter of a second. Nothing is collected; the next full collection finds garbage
    among the objects. If the process has frozen objects itself, nothing is done: Python cannot unfreeze only some.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()  # to the oldest generation


@contextmanager
def frozen_objects_found() -> Iterator[None]:
    """Let `gc.get_referrers` and `gc.get_objects` find, inside the block, the objects that `gc.freeze` has hidden.

    Servers freeze the objects that they have loaded, so that no collection goes through them. Python cannot unfreeze
    some objects alone: after the block all objects that are alive are frozen, like after another call of `gc.freeze`.
    If nothing was frozen, nothing changes.
    """
    if not gc.get_freeze_count():
        yield
        return
    with restored(gc.freeze, in_child=False):
        gc.unfreeze()
        yield
