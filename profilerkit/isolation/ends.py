"""The sockets and pipes between this process and the processes that it starts: our ends, and theirs."""

from __future__ import annotations

import json
import os
import socket
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from .channel import MESSAGE, frame

__all__ = ["ChildEnds", "ParentEnds", "Started", "open_ends", "open_pairs"]

#: The ends of this process. A forked child closes them: otherwise others would not notice that this process ended.
open_ends: weakref.WeakSet[Any] = weakref.WeakSet()


class ParentEnds(NamedTuple):
    """The ends of this process: sockets to the supervisor and to the model, and files of the model's output."""

    control: socket.socket
    channel: socket.socket
    outputs: tuple[IO[bytes], IO[bytes]]

    def close(self) -> None:
        """Close all of them."""
        for end in (self.control, self.channel, *self.outputs):
            end.close()

    def stop_blocking(self) -> None:
        """Have all of them return at once if nothing has arrived."""
        self.control.setblocking(False)
        self.channel.setblocking(False)
        for file in self.outputs:
            os.set_blocking(file.fileno(), False)


@dataclass
class ChildEnds:
    """The other ends, which the started processes get, and the file with the job."""

    control: socket.socket
    channel: socket.socket
    outputs: tuple[int, int]
    job: IO[bytes] | None = None

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that the supervisor is told: control, channel, and job if it reads one from a file."""
        job = [] if self.job is None else [self.job.fileno()]
        return [self.control.fileno(), self.channel.fileno(), *job]

    def close(self) -> None:
        """Close all of them."""
        self.control.close()
        self.channel.close()
        for descriptor in self.outputs:
            os.close(descriptor)
        if self.job is not None:
            self.job.close()


@contextmanager
def open_pairs() -> Iterator[tuple[ParentEnds, ChildEnds]]:
    """Create both ends of all sockets and pipes; ours are closed if starting raises, the others always."""
    control, their_control = socket.socketpair()
    channel, their_channel = socket.socketpair()
    (output, their_output), (errors, their_errors) = os.pipe(), os.pipe()
    files = os.fdopen(output, "rb", buffering=0), os.fdopen(errors, "rb", buffering=0)
    parent_ends = ParentEnds(control, channel, files)
    child_ends = ChildEnds(their_control, their_channel, (their_output, their_errors))
    open_ends.update((control, channel, *files))
    try:
        yield parent_ends, child_ends
    except BaseException:
        parent_ends.close()
        raise
    finally:
        child_ends.close()


@dataclass
class Started:
    """A started process: our ends, a function that waits for its supervisor, and the marks of its processes.

    The processes inherit a marker, and ``their_channel``, a socket, which is recognized by its inode.
    """

    ends: ParentEnds
    marker: str
    their_channel: int
    wait: Callable[[], None]

    def send(self, **message: Any) -> None:
        """Send the supervisor a message, after which it ends all processes."""
        control = self.ends.control
        if control.fileno() >= 0:
            with suppress(OSError):
                control.sendall(frame(MESSAGE, json.dumps(message).encode()))

    def close(self) -> None:
        """Close all ends, which ends all processes that still run, and wait until the supervisor has ended."""
        self.ends.close()
        self.wait()
