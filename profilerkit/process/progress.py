"""Progress of long work: a bar on standard error if that is a terminal, nothing if it is a pipe.

Nested work shares one display. It is drawn between two items only, never by a separate thread, which could disturb a
measurement.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeVar

from ..foreign_text import visible
from .inner_states import keep_random_state
from .restoring import restored

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["is_terminal", "progress_enabled", "track"]

T = TypeVar("T")


class _ThreadState(threading.local):
    """The display of each thread, while it has one, and whether it may have one."""

    display: Progress | None = None
    is_enabled: bool = True


_state = _ThreadState()


def track(items: Iterable[T], description: str, step: Callable[[T], str] | None = None) -> Iterable[T]:
    """Return the items, with a progress bar while they are iterated over, if standard error is a terminal.

    ``step`` names an item; the bar shows the name of the one that is worked on.
    """
    return _TrackedItems(items, description, step) if _state.is_enabled and is_terminal(sys.stderr) else items


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; a process may have None for one that it lacks, or a closed one."""
    try:
        return stream is not None and not stream.closed and stream.isatty()
    except ValueError:  # its descriptor is closed
        return False


@contextmanager
def progress_enabled(enabled: bool) -> Iterator[None]:
    """Show progress in this thread during the block, or do not."""
    previous, _state.is_enabled = _state.is_enabled, enabled
    try:
        yield
    finally:
        _state.is_enabled = previous


@dataclass(frozen=True)
class _TrackedItems(Generic[T]):
    """Items that have a bar while they are iterated over.

    They are no generator: the loop alone holds the iterator, so that the display ends with the loop. A generator would
    stay open as long as a name of the loop's function holds it: after an error, for as long as its traceback is kept.
    """

    items: Iterable[T]
    description: str
    step: Callable[[T], str] | None

    def __iter__(self) -> Iterator[T]:
        streams = (sys.stdout, sys.stderr)
        is_outermost = _state.display is None
        display = _state.display or _make_display()
        task = display.add_task(visible(self.description), total=_count(self.items))
        try:
            if is_outermost:
                _state.display = display
                display.start()
            display.refresh()
            for item in self.items:
                if self.step is not None:
                    display.update(task, description=visible(f"{self.description}: {self.step(item)}"))
                    display.refresh()
                with restored(in_child=lambda: _restore_streams(streams)):
                    yield item
                display.advance(task)
                display.refresh()
        finally:
            display.remove_task(task)
            if is_outermost:
                _state.display = None
                display.stop()


def _restore_streams(streams: tuple[Any, Any]) -> None:
    """Restore the streams in a forked child: the display replaces them by ones with a lock, which may be locked."""
    sys.stdout, sys.stderr = streams


def _count(items: Iterable[Any]) -> int | None:
    """Return the number of items; None if it is not known before they are iterated over."""
    try:
        return len(items) if isinstance(items, Sized) else None
    except TypeError:  # a loader that has a length in some configurations only
        return None


def _make_display() -> Progress:
    with keep_random_state():
        from rich.console import Console
        from rich.progress import Progress, TextColumn

        # A name is no markup of rich's, whatever brackets it has.
        name = TextColumn("{task.description}", style="progress.description", markup=False)
        columns = (name, *Progress.get_default_columns()[1:])
        return Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=is_terminal(sys.stdout),  # what the caller prints to a file stays there
        )
