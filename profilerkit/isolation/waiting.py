"""Waiting for processes: their messages and output are read as they arrive, and their time limits are kept."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Callable, Iterable
from typing import IO, Protocol, TypeAlias

__all__ = ["End", "pump", "receive"]

#: A socket or file of this process, whose other end a process has that is waited for.
End: TypeAlias = socket.socket | IO[bytes]
#: How many bytes are read at once.
_PIECE = 2**18


class Awaited(Protocol):
    """A process that is waited for.

    Attributes:
        sources: The open ends, each with a function that reads a piece from it; none once the process is over.
    """

    sources: dict[End, Callable[[], object]]

    def seconds_left(self) -> float | None:
        """Return the seconds until `on_time` has work to do; None if that may be never."""
        ...

    def on_time(self) -> None:
        """Do the work whose time has come, if any."""
        ...


def pump(runs: Iterable[Awaited], until: Callable[[], bool]) -> None:
    """Read the messages of processes and enforce their time limits, until a condition is true or all are over."""
    all_runs = list(runs)
    while not until():
        with selectors.DefaultSelector() as selector:
            for run in all_runs:
                for end in run.sources:
                    selector.register(end, selectors.EVENT_READ, run)
            if not selector.get_map():
                return
            times_left = [run.seconds_left() for run in all_runs if run.sources]
            timeout = min((seconds for seconds in times_left if seconds is not None), default=None)
            for key, _ in selector.select(timeout):
                if read := key.data.sources.get(key.fileobj):  # it may have been closed by the one before
                    read()
        for run in all_runs:
            run.on_time()


def receive(end: End) -> bytes | None:
    """Return the bytes that arrived; empty if the other end is closed, None if nothing arrived yet."""
    try:
        return os.read(end.fileno(), _PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return b""
