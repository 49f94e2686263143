"""How the process of a model is started: in a fresh interpreter, or in a copy of one that has imported its framework.

Both begin as a supervisor (`profilerkit.isolation.supervisor`), whose child is the process of the model.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import IO

from ..errors import NotOfferedError
from ..job import Job
from ..process.clean_output import standard_descriptors
from . import processes
from .interpreters import make_command, request_copy
from .job_file import require_started, write_job
from .limits import Limits

__all__ = ["Started", "require_possible", "start"]

#: How many seconds a supervisor may take to end when all it watches has ended.
SECONDS_TO_END = 5.0


@dataclass
class Started:
    """The ends of this process: sockets to the supervisor and to the model, and files of the model's output.

    A fresh supervisor is a child of this process; a copy is a child of its fork server.
    """

    control: socket.socket
    channel: socket.socket
    output: IO[bytes]
    errors: IO[bytes]
    supervisor: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """Close all ends, which ends all processes that still run, and wait until the supervisor has ended."""
        for end in (self.control, self.channel, self.output, self.errors):
            end.close()
        if self.supervisor is not None:
            try:
                self.supervisor.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                self.supervisor.kill()
                self.supervisor.wait()


def require_possible(limits: Limits) -> None:
    """Raise an error for a limit that this system cannot enforce, and where no process can be started."""
    if sys.platform == "win32":
        raise NotOfferedError(f"isolation needs Linux, or another POSIX system; this is {sys.platform}")
    if limits.memory is not None and not processes.LINUX:
        needed = "Linux, and a kernel that lists the children of a process"
        raise NotOfferedError(f"a memory limit needs {needed}; this is {sys.platform}, where only timeout= holds")
    require_started()


def start(job: Job, limits: Limits, preload: tuple[str, ...] | None = None) -> Started:
    """Start a process for a job: a copy of the fork server that has imported the modules of ``preload``.

    Without ``preload`` it is a fresh interpreter.
    """
    require_possible(limits)
    facts = {"limits": asdict(limits), "caller": os.getpid(), "environ": dict(os.environ)}
    with standard_descriptors(), write_job(job, **facts) as file:
        ours, theirs = zip(socket.socketpair(), socket.socketpair(), _open_pipe(), _open_pipe(), strict=True)
        started = Started(*ours)
        try:
            control, channel, output, errors = (end.fileno() for end in theirs)
            if preload is not None:
                request_copy(preload, [control, channel, file.fileno(), output, errors])
            else:
                started.supervisor = _start_interpreter([control, channel, file.fileno()], output, errors)
        except BaseException:
            started.close()
            raise
        finally:
            for end in theirs:
                end.close()
    for end in ours:
        os.set_blocking(end.fileno(), False)
    return started


def _open_pipe() -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb", buffering=0), os.fdopen(writing, "wb", buffering=0)


def _start_interpreter(descriptors: list[int], output: int, errors: int) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter as the supervisor, with the descriptors that `supervisor.main` reads."""
    return subprocess.Popen(
        make_command("profilerkit.isolation.supervisor", *descriptors),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        pass_fds=descriptors,
        start_new_session=True,
    )
