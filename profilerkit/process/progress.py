"""Progress of long work: a bar on standard error where that is a terminal, nothing where it is a pipe.

One display serves nested work. It is drawn only between two items, never by a thread of its own, which could disturb
a measurement.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from .locks import undone_in_child
from .randomness import untouched_random

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["shown_if", "track"]

T = TypeVar("T")


class _Shown(threading.local):
    """The display of each thread, while it has one, and whether it may have one."""

    display: Progress | None = None
    wanted: bool = True


_shown = _Shown()


def track(items: Iterable[T], description: str) -> Iterable[T]:
    """Return the items, with a progress bar while they are gone through on a terminal."""
    return _tracked(items, description) if _shown.wanted and sys.stderr.isatty() else items


@contextmanager
def shown_if(wanted: bool) -> Iterator[None]:
    """Show progress in this thread meanwhile, or none."""
    before, _shown.wanted = _shown.wanted, wanted
    try:
        yield
    finally:
        _shown.wanted = before


def _tracked(items: Iterable[T], description: str) -> Iterator[T]:
    outermost, streams = _shown.display is None, (sys.stdout, sys.stderr)
    display = _shown.display = _shown.display or _started_display()
    task = display.add_task(description, total=_length(items))
    try:
        display.refresh()
        for item in items:
            with undone_in_child(lambda: _give_back(streams)):
                yield item
            display.advance(task)
            display.refresh()
    finally:
        display.remove_task(task)
        if outermost:
            _shown.display = None
            display.stop()


def _give_back(streams: tuple[Any, Any]) -> None:
    """Print as before in a forked child: what a display puts in their place has a lock that its thread may hold."""
    sys.stdout, sys.stderr = streams


def _length(items: Iterable[Any]) -> int | None:
    try:
        return len(items) if isinstance(items, Sized) else None
    except TypeError:  # a loader that has a length only at times
        return None


def _started_display() -> Progress:
    with untouched_random():
        from rich.console import Console
        from rich.progress import Progress

        display = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
    display.start()
    return display
