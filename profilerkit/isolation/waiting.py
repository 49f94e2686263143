"""Waiting for processes: their messages are read as they arrive, and their time limits are kept."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Callable, Iterable
from typing import IO, NamedTuple, Protocol

__all__ = ["Source", "is_closed", "pump", "receive"]

#: How many bytes are read at once.
_PIECE = 2**18


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
