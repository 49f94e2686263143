"""Messages between processes, over a socket: a mapping in JSON each, in a line of its own.

What a model writes to the descriptor is no such line: the result is a `ChannelError`, never a wrong number. Nothing is
unpickled.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any

from ..errors import ProfilerKitError

__all__ = ["Channel", "ChannelError", "LineReader", "write_line"]

#: The longest line, in bytes. The report of 10,000 layers is some MiB.
LONGEST = 64 * 2**20
#: How much is read from a socket at once.
_PIECE = 2**18


class ChannelError(ProfilerKitError):
    """The data on the channel is not a message of profilerkit, or is too long for one."""


def write_line(message: dict[str, Any]) -> bytes:
    """Return a message in the form in which it is sent; raises `ChannelError` if it is too long."""
    text = json.dumps(message, ensure_ascii=False, allow_nan=False)
    line = text.encode("utf-8", "replace") + b"\n"  # the name of a file may hold half of a surrogate pair
    if len(line) > LONGEST:
        raise ChannelError(f"a message of {len(line)} bytes is longer than the {LONGEST} that are allowed")
    return line


class LineReader:
    """Splits a stream of bytes, which may come in any pieces, into the lines of messages."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def read(self, piece: bytes) -> Iterator[bytes]:
        """Yield each line that is complete with this piece; raise `ChannelError` for one that cannot be a message."""
        *ends, begun = piece.split(b"\n")
        for end in ends:
            self._add(end)
            yield bytes(self._begun)
            self._begun.clear()
        self._add(begun)

    def _add(self, part: bytes) -> None:
        self._begun += part
        if self._begun and not self._begun.startswith(b"{"):
            raise ChannelError(f"it begins with {bytes(self._begun[:20])!r}")
        if len(self._begun) > LONGEST:
            raise ChannelError(f"more than {LONGEST} bytes were sent as one message")


class Channel:
    """One end of a socket: each method sends or receives one message, and returns when that is done."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._reader = LineReader()
        self._waiting: list[bytes] = []
        self._owner = os.getpid()

    def send(self, **message: Any) -> None:
        """Send a message."""
        if os.getpid() != self._owner:  # the model forked, and the copy came back here: it must not say all that twice
            os._exit(0)
        self.socket.sendall(write_line(message))

    def receive(self) -> dict[str, Any]:
        """Wait for a message and return it; raises `ChannelError` if the other end is closed."""
        while not self._waiting:
            piece = self.socket.recv(_PIECE)
            if not piece:
                raise ChannelError("the other end is closed")
            self._waiting.extend(self._reader.read(piece))
        message: dict[str, Any] = json.loads(self._waiting.pop(0))
        return message
