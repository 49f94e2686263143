"""Messages between processes, over a socket.

A message is a frame over a socket, which stray output cannot imitate: ``pk`` and a version, the kind of the message,
and the length and checksum of its content. If a model writes to the descriptor or closes it, the result is a
`ChannelError`, never a wrong number. Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import ProfilerKitError

__all__ = ["MESSAGE", "REPORT", "Channel", "ChannelError", "FrameReader", "Message", "decode", "frame"]

#: Kinds of frames: a small message of JSON; a report as `profilerkit.results.saving` writes it.
MESSAGE, REPORT = b"M", b"R"
#: The head of a frame: ``pk``, the version and the kind; the length of the content; the checksum of the content.
_HEAD = struct.Struct(">4sII")
_MAGIC = b"pk1"
#: The longest message and the most that one process may send. The report of 10,000 layers is some MiB.
LONGEST = 64 * 2**20
MOST = 1024 * 2**20
#: How much is read from a socket at once.
_PIECE = 2**18


class Message(NamedTuple):
    """The kind and the content of a frame."""

    kind: bytes
    content: bytes


class ChannelError(ProfilerKitError):
    """The data on the channel is not a message of profilerkit, or there is too much of it."""


def frame(kind: bytes, content: bytes) -> bytes:
    """Return a message in the form in which it is sent; raises `ChannelError` if it is too long."""
    if len(content) > LONGEST:
        raise ChannelError(f"a message of {len(content)} bytes is longer than the {LONGEST} that are allowed")
    return _HEAD.pack(_MAGIC + kind, len(content), zlib.crc32(content)) + content


class FrameReader:
    """Splits a stream of bytes, which may come in any pieces, into messages; other data is a `ChannelError`."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._received = 0

    def read(self, piece: bytes) -> Iterator[Message]:
        """Yield each message that is complete with this piece."""
        self._received += len(piece)
        if self._received > MOST:
            raise ChannelError(f"more than {MOST} bytes were sent as results")
        self._buffer += piece
        while (message := self._take_next()) is not None:
            yield message

    @property
    def bytes_to_come(self) -> int:
        """How many bytes the current message still needs at the least; never a byte of the message after it."""
        size = len(self._buffer)
        if size < _HEAD.size:
            return _HEAD.size - size
        _, length, _ = _HEAD.unpack_from(self._buffer)
        return _HEAD.size + int(length) - size

    def _take_next(self) -> Message | None:
        """Take the first message out of the buffer; return None while it is not complete."""
        if not (self._buffer.startswith(_MAGIC) or _MAGIC.startswith(self._buffer[: len(_MAGIC)])):
            raise self._make_error()
        if len(self._buffer) < _HEAD.size:
            return None
        start, length, checksum = _HEAD.unpack_from(self._buffer)
        kind, end = start[len(_MAGIC) :], _HEAD.size + length
        if kind not in (MESSAGE, REPORT) or length > LONGEST:
            raise self._make_error()
        if len(self._buffer) < end:
            return None
        content = bytes(self._buffer[_HEAD.size : end])
        if zlib.crc32(content) != checksum:
            raise ChannelError("the checksum of a message does not fit")
        del self._buffer[:end]
        return Message(kind, content)

    def _make_error(self) -> ChannelError:
        return ChannelError(f"it begins with {bytes(self._buffer[:20])!r}")


def decode(content: bytes) -> dict[str, Any]:
    """Return the content of a small message; raises `ChannelError` if it is no mapping in JSON."""
    try:
        message = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ChannelError(f"a message is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise ChannelError("a message is no mapping")
    return message


class Channel:
    """One end of a socket: each method sends or receives one message, and returns when that is done."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._reader = FrameReader()
        self._waiting: list[Message] = []
        self._owner = os.getpid()

    def send(self, **message: Any) -> None:
        """Send a small message."""
        self._send(MESSAGE, json.dumps(message).encode())

    def send_report(self, content: bytes) -> None:
        """Send a report as `profilerkit.results.saving` writes it."""
        self._send(REPORT, content)

    def _send(self, kind: bytes, content: bytes) -> None:
        if os.getpid() != self._owner:  # the model forked, and the copy came back here: it must not say all that twice
            os._exit(0)
        self.socket.sendall(frame(kind, content))

    def receive(self) -> dict[str, Any]:
        """Wait for a small message and return it; raises `ChannelError` for a report, and if the other end is closed.

        Nothing beyond it is read: descriptors may come with the next bytes, and they would be lost.
        """
        while not self._waiting:
            piece = self.socket.recv(min(_PIECE, self._reader.bytes_to_come))
            if not piece:
                raise ChannelError("the other end is closed")
            self._waiting.extend(self._reader.read(piece))
        message = self._waiting.pop(0)
        if message.kind != MESSAGE:
            raise ChannelError("a report came in place of a message")
        return decode(message.content)
