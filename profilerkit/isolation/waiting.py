"""Waiting for processes: their messages and output are read as they arrive, and their time limits are kept."""

from __future__ import annotations

import os
import selectors
import socket
import sys
from collections.abc import Callable, Iterable
from typing import IO, NamedTuple, Protocol

from ..piping.quantity import format_bytes

__all__ = ["BoundedOutput", "Source", "is_closed", "pump", "receive"]

#: How many bytes are read at once.
_PIECE = 2**18
#: Bytes of each stream that are shown as they come, and that are kept of its end.
HEAD, TAIL = 2**16, 2**16


class Source(NamedTuple):
    """A socket or file to wait for.

    Attributes:
        end: The end of it that is here.
        read: Reads a piece, and returns whether more may have come already.
    """

    end: socket.socket | IO[bytes]
    read: Callable[[], bool]


class Awaited(Protocol):
    """A process that is waited for."""

    over: bool

    def list_sources(self) -> list[Source]:
        """Return the sources to wait for."""
        ...

    def seconds_left(self) -> float | None:
        """Return the seconds until `on_time` has work to do; None if that may be never."""
        ...

    def on_time(self) -> None:
        """Do all work whose time has come."""
        ...


def pump(runs: Iterable[Awaited], until: Callable[[], bool]) -> None:
    """Read the messages of processes and enforce their time limits, until a condition is true or all are over."""
    all_runs = list(runs)
    while not until():
        with selectors.DefaultSelector() as selector:
            for run in all_runs:
                for source in run.list_sources():
                    selector.register(source.end, selectors.EVENT_READ, source.read)
            if not selector.get_map():
                return
            times_left = [run.seconds_left() for run in all_runs if not run.over]
            timeout = min((seconds for seconds in times_left if seconds is not None), default=None)
            for key, _ in selector.select(timeout):
                key.data()
        for run in all_runs:
            run.on_time()


def receive(end: socket.socket | IO[bytes]) -> bytes | None:
    """Return the bytes that arrived; empty if the other end is closed, None if nothing arrived yet."""
    if is_closed(end):
        return None
    try:
        return os.read(end.fileno(), _PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def is_closed(end: socket.socket | IO[bytes]) -> bool:
    """Return whether the end that is here was closed."""
    return end.fileno() < 0 if isinstance(end, socket.socket) else end.closed


# The output of a model, shown by the caller within bounds -------------------------------------------------------------


class BoundedOutput:
    """Shows the first bytes of a stream at once; of longer output it keeps the last bytes and counts the others.

    With ``quiet`` nothing is shown.
    """

    def __init__(self, name: str, head: int = HEAD, tail: int = TAIL, quiet: bool = False) -> None:
        self.name = name
        self.quiet = quiet
        self.received: int = 0
        #: The last bytes of the output, up to the number that is kept.
        self.tail: bytes = b""
        self._head, self._tail = head, tail

    def add(self, piece: bytes) -> None:
        """Process the next bytes."""
        shown = piece[: max(0, self._head - self.received)]
        self.received += len(piece)
        self.tail = (self.tail + piece)[-self._tail :]
        if shown and not self.quiet:
            _show(shown)

    def read_from(self, file: IO[bytes]) -> bool:
        """Process the bytes arrived in a file, and close it at its end; return whether more may have come already."""
        piece = receive(file)
        if piece:
            self.add(piece)
        elif piece is not None:
            file.close()
        return bool(piece)

    def finish(self) -> None:
        """Show the last bytes of output beyond the limit, and the number of bytes that were left out."""
        beyond = self.received - self._head
        if beyond <= 0 or self.quiet:
            return
        last = self.tail[-min(beyond, self._tail) :]
        dropped = beyond - len(last)
        if dropped:
            note = f"\n[profilerkit: {format_bytes(dropped)} of the model's {self.name} are left out here]\n"
            _show(note.encode())
        _show(last)


def _show(content: bytes) -> None:
    """Write bytes of a child to standard error."""
    stream = sys.stderr
    if stream is None:  # a program without a console
        return
    try:
        stream.write(content.decode("utf-8", "replace"))
        stream.flush()
    except (OSError, ValueError, UnicodeEncodeError):  # closed, or full: the results matter more
        return
