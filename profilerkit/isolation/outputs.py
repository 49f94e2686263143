"""The output of a model in its process, shown by the caller within bounds."""

from __future__ import annotations

import sys
from typing import IO

from ..piping.quantity import format_bytes
from .waiting import receive

__all__ = ["BoundedOutput", "show"]

#: Bytes of each stream that are shown as they come, and that are kept of its end.
HEAD, TAIL = 2**16, 2**16


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
            show(shown)

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
            show(note.encode())
        show(last)


def show(content: bytes) -> None:
    """Write bytes of a child to standard error."""
    stream = sys.stderr
    if stream is None:  # a program without a console
        return
    try:
        stream.write(content.decode("utf-8", "replace"))
        stream.flush()
    except (OSError, ValueError, UnicodeEncodeError):  # closed, or full: the results matter more
        return
