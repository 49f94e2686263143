"""How the process of a model is started: ``spawn`` (a fresh interpreter), ``forkserver`` (a copy of one), ``fork``.

Each way begins with a supervisor (`profilerkit.isolation.supervisor`), whose child is the process of the model.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias, get_args

from ..arguments.checks import text
from ..error_text import shown
from ..errors import ArgumentError, NotOfferedError, by_likeness
from ..job import Job
from ..process.clean_output import standard_descriptors
from . import processes
from .ends import ChildEnds, Started, open_ends, open_pairs
from .forkable import require_forkable
from .interpreters import make_command, request_copy
from .job_file import require_started, write_job
from .limits import Limits
from .supervisor import redirect, supervise

__all__ = ["METHODS", "StartMethod", "require_possible", "start"]

#: How a process may be started.
StartMethod: TypeAlias = Literal["spawn", "forkserver", "fork"]
METHODS: tuple[StartMethod, ...] = get_args(StartMethod)

#: How long a supervisor may take to end when all it watches has ended.
SECONDS_TO_END = 5.0


def require_possible(method: str, limits: Limits, preload: tuple[str, ...] = ()) -> None:
    """Raise an error for an unknown start method, or for a limit that this system cannot enforce."""
    if text("one of 'spawn', 'forkserver' and 'fork'")("start_method", method) not in METHODS:
        raise ArgumentError(
            f"start_method={method!r}; there are, nearest first: {', '.join(by_likeness(method, METHODS))}"
        )
    if preload and method != "forkserver":
        raise ArgumentError(f"preload={shown(preload)} is for start_method='forkserver', not for {method!r}")
    if sys.platform == "win32":
        raise NotOfferedError(f"isolation needs Linux, or another POSIX system; this is {sys.platform}")
    if limits.memory is not None and not processes.LINUX:
        needed = "Linux, and a kernel that lists the children of a process"
        raise NotOfferedError(f"a memory limit needs {needed}; this is {sys.platform}, where only timeout= holds")
    require_started()
    if method == "fork":
        require_forkable("this process")


def start(method: str, job: Job, limits: Limits, preload: tuple[str, ...] = ()) -> Started:
    """Start a process for a job in one of the `METHODS`."""
    require_possible(method, limits, preload)
    marker = uuid.uuid4().hex
    with standard_descriptors(), open_pairs() as (parent_ends, child_ends):
        if method == "fork":
            wait = _fork(job, limits, child_ends, marker)
        else:
            child_ends.job = write_job(job)
            if method == "spawn":
                wait = _spawn(limits, child_ends, marker)
            else:
                wait = _copy_server(limits, child_ends, marker, preload)
        parent_ends.stop_blocking()
        return Started(parent_ends, marker, os.fstat(child_ends.channel.fileno()).st_ino, wait)


# A fresh interpreter ------------------------------------------------------------------------------------------------


def _spawn(limits: Limits, child_ends: ChildEnds, marker: str) -> Callable[[], None]:
    """Start an interpreter as the supervisor; return a function that waits for it."""
    output, errors = child_ends.outputs
    process = subprocess.Popen(
        make_command(
            "profilerkit.isolation.supervisor", *child_ends.descriptors, os.getpid(), json.dumps(asdict(limits))
        ),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        pass_fds=child_ends.descriptors,
        start_new_session=True,
        env={**os.environ, processes.MARKER: marker},
    )

    def wait() -> None:
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    return wait


# A copy of this process ---------------------------------------------------------------------------------------------


def _fork(job: Job, limits: Limits, child_ends: ChildEnds, marker: str) -> Callable[[], None]:
    """Fork this process, as the supervisor; return a function that waits for it."""
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the caller has weighed
        pid = os.fork()
    if pid == 0:
        _become_supervisor(child_ends, marker, limits, parent, job)

    def wait() -> None:
        deadline = time.monotonic() + SECONDS_TO_END
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    return wait


def _become_supervisor(child_ends: ChildEnds, marker: str, limits: Limits, parent: int, job: Job) -> NoReturn:
    """Continue as the supervisor of a model that is in the memory of this process."""
    try:
        for end in list(open_ends):
            end.close()
        os.setsid()
        os.environ[processes.MARKER] = marker
        redirect(*child_ends.outputs)
        supervise(child_ends.control, child_ends.channel, job, limits, parent)
    finally:
        os._exit(70)  # only after an error: `supervise` ends the process itself


# A copy of a warm interpreter ---------------------------------------------------------------------------------------


def _copy_server(limits: Limits, child_ends: ChildEnds, marker: str, preload: tuple[str, ...]) -> Callable[[], None]:
    """Have a fork server fork a supervisor; nothing is waited for, because the supervisor is the server's child."""
    environ = {**os.environ, processes.MARKER: marker}
    request = {"limits": asdict(limits), "parent": os.getpid(), "dir": str(Path.cwd()), "environ": environ}
    descriptors = [*child_ends.descriptors, *child_ends.outputs]
    request_copy(preload, request, descriptors)
    return lambda: None
