"""How the process of a model is started: ``spawn`` (a fresh interpreter), ``forkserver`` (a copy of one), ``fork``.

Each way begins with a supervisor (`profilerkit.isolation.supervisor`), whose child is the process of the model.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, TypeAlias, get_args

from ..arguments.checks import text
from ..error_text import shown
from ..errors import ArgumentError, InputError, NotOfferedError, by_likeness
from ..process.clean_output import standard_descriptors
from ..process.locks import Lock
from . import processes
from .channel import MESSAGE, Channel, ChannelError, frame
from .job import NEVER_FORKED, Job, require_started, write_job
from .limits import Limits
from .supervisor import supervise

__all__ = ["METHODS", "StartMethod", "Started", "require_forkable", "require_possible", "start", "start_server"]

#: How a process may be started.
StartMethod: TypeAlias = Literal["spawn", "forkserver", "fork"]
METHODS: tuple[StartMethod, ...] = get_args(StartMethod)

#: The ends of this process, which no forked child may keep: it would keep others from noticing that this one ended.
_open_ends: weakref.WeakSet[Any] = weakref.WeakSet()

#: How long a supervisor may take to end when all it watches has ended.
SECONDS_TO_END = 5.0

_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from {0} import main; main()"


@dataclass
class Started:
    """A started process: the sockets of its supervisor and of the process of the model, and their output."""

    control: socket.socket
    channel: socket.socket
    outputs: tuple[IO[bytes], IO[bytes]]
    marker: str
    wait: Callable[[], None]

    def send(self, **message: Any) -> None:
        """Send the supervisor a message, after which it ends all processes."""
        if self.control.fileno() >= 0:
            with suppress(OSError):
                self.control.sendall(frame(MESSAGE, json.dumps(message).encode()))

    def close(self) -> None:
        """Close all ends, which ends all processes that still run, and wait until the supervisor has ended."""
        for end in (self.control, self.channel, *self.outputs):
            end.close()
        self.wait()


@dataclass
class _Ends:
    """The ends of the sockets and pipes that the started processes get."""

    control: socket.socket
    channel: socket.socket
    outputs: tuple[int, int]
    job: IO[bytes] | None = None
    open: bool = True

    @property
    def descriptors(self) -> list[int]:
        """The numbers of all ends: control, channel, job, and where output and errors go."""
        job = [] if self.job is None else [self.job.fileno()]
        return [self.control.fileno(), self.channel.fileno(), *job, *self.outputs]

    def close(self) -> None:
        """Close all of them."""
        if self.open:
            self.open = False
            self.control.close()
            self.channel.close()
            for descriptor in self.outputs:
                os.close(descriptor)
            if self.job is not None:
                self.job.close()


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
        raise NotOfferedError(f"a memory limit needs Linux; this is {sys.platform}, where only timeout= holds")
    require_started()
    if method == "fork":
        require_forkable("this process")


def require_forkable(who: str) -> None:
    """Raise `InputError` if this process has imported or uses a library that does not survive a fork."""
    for module, name in NEVER_FORKED.items():
        if module in sys.modules:
            raise InputError(
                f"{who} has imported {name}, which must not be forked: the copy may wait for its threads for ever; "
                "use start_method='spawn'"
            )
    if _uses_cuda():
        raise InputError(f"{who} uses CUDA, which must not be forked; use start_method='spawn'")


def _uses_cuda() -> bool:
    torch = sys.modules.get("torch")
    initialized = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    if initialized is not None and initialized():
        return True
    try:
        return any(map(_is_gpu, Path("/proc/self/fd").iterdir()))
    except OSError:
        return False


def _is_gpu(link: Path) -> bool:
    try:
        return str(link.readlink()).startswith(("/dev/nvidia", "/dev/kfd"))
    except OSError:
        return False


def start(method: str, job: Job, limits: Limits, preload: tuple[str, ...] = ()) -> Started:
    """Start a process for a job in one of the `METHODS`."""
    require_possible(method, limits, preload)
    marker = uuid.uuid4().hex
    with standard_descriptors(), _pairs() as (parent_ends, child_ends):
        if method != "fork":
            child_ends.job = write_job(job)
        begin = {"spawn": _spawn, "forkserver": _from_server, "fork": _fork}[method]
        wait = begin(job, limits, child_ends, marker, preload)
        for end in parent_ends[:2]:
            end.setblocking(False)
        for file in parent_ends[2]:
            os.set_blocking(file.fileno(), False)
        return Started(*parent_ends, marker, wait)


@contextmanager
def _pairs() -> Iterator[tuple[tuple[socket.socket, socket.socket, tuple[IO[bytes], IO[bytes]]], _Ends]]:
    """Create both ends of all sockets and pipes; ours are closed if starting raises, the others always."""
    control, their_control = socket.socketpair()
    channel, their_channel = socket.socketpair()
    pipes = [os.pipe(), os.pipe()]
    files = tuple(os.fdopen(reading, "rb", buffering=0) for reading, _ in pipes)
    child_ends = _Ends(their_control, their_channel, (pipes[0][1], pipes[1][1]))
    _open_ends.update((control, channel, *files))
    try:
        yield (control, channel, (files[0], files[1])), child_ends
    except BaseException:
        for end in (control, channel):
            end.close()
        for file in files:
            file.close()
        raise
    finally:
        child_ends.close()


# A fresh interpreter ------------------------------------------------------------------------------------------------


def program(main: str, *arguments: object) -> list[str]:
    """Return the command line of an interpreter like this one, which finds modules in the same places."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    path = json.dumps([str(Path(folder).absolute()) for folder in sys.path])
    return [sys.executable, *flags, "-c", _BOOT.format(main), *map(str, arguments), path]


def _spawn(job: Job, limits: Limits, child_ends: _Ends, marker: str, preload: tuple[str, ...]) -> Callable[[], None]:
    descriptors = child_ends.descriptors[:3]
    process = subprocess.Popen(
        program("profilerkit.isolation.supervisor", *descriptors, os.getpid(), json.dumps(asdict(limits))),
        stdin=subprocess.DEVNULL,
        stdout=child_ends.outputs[0],
        stderr=child_ends.outputs[1],
        pass_fds=descriptors,
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


def _fork(job: Job, limits: Limits, child_ends: _Ends, marker: str, preload: tuple[str, ...]) -> Callable[[], None]:
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


def _become_supervisor(child_ends: _Ends, marker: str, limits: Limits, parent: int, job: Job) -> NoReturn:
    """Continue as the supervisor of a model that is in the memory of this process."""
    try:
        for end in list(_open_ends):
            end.close()
        os.setsid()
        os.environ[processes.MARKER] = marker
        redirect(*child_ends.outputs)
        supervise(child_ends.control, child_ends.channel, job, limits, parent)
    finally:
        os._exit(70)


def redirect(output: int, errors: int) -> None:
    """Have this process, and those that it starts, read nothing and write to other descriptors."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, output, errors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = open(number, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)  # noqa: SIM115
        setattr(sys, name, stream)


# A copy of a warm interpreter ---------------------------------------------------------------------------------------


def _from_server(
    job: Job, limits: Limits, child_ends: _Ends, marker: str, preload: tuple[str, ...]
) -> Callable[[], None]:
    request = {"limits": asdict(limits), "parent": os.getpid(), "dir": str(Path.cwd()), "environ": dict(os.environ)}
    content = json.dumps(request).encode()
    for attempt in (1, 2):
        server = _server(preload)
        try:
            socket.send_fds(server, [b"+"], child_ends.descriptors)
            server.sendall(frame(MESSAGE, content))
            break
        except OSError:  # it was ended meanwhile
            server.close()
            if attempt == 2:
                raise
    return lambda: None


_servers: dict[tuple[int, tuple[str, ...]], socket.socket] = {}
_server_processes: list[subprocess.Popen[bytes]] = []
_servers_lock = Lock()


def _server(preload: tuple[str, ...]) -> socket.socket:
    """Return the socket of an interpreter that has imported some modules; it is started when it is first needed."""
    with _servers_lock:
        key = (os.getpid(), preload)
        server = _servers.get(key)
        if server is None or server.fileno() < 0:
            server = _servers[key] = _start_server(preload)
        return server


def start_server(preload: tuple[str, ...]) -> None:
    """Start the interpreter that has imported some modules, if it does not run yet, and wait until it is ready.

    Raises `InputError` if one of the modules cannot be imported, or must not be forked.
    """
    _server(preload)


def _start_server(preload: tuple[str, ...]) -> socket.socket:
    client, served = socket.socketpair()
    _open_ends.add(client)
    with served:
        process = subprocess.Popen(
            program("profilerkit.isolation.forkserver", served.fileno(), json.dumps(preload)),
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=[served.fileno()],
            start_new_session=True,
        )
    try:
        reply = Channel(client).receive()
    except ChannelError:
        reply = {"error": "it ended while it imported them"}
    if "error" in reply:
        client.close()
        process.wait()
        raise InputError(f"the fork server for preload={preload!r} could not be started: {reply['error']}")
    _server_processes.append(process)
    return client


@atexit.register
def _end_servers() -> None:
    """End these interpreters with this process: they end when their socket is closed."""
    for server in _servers.values():
        server.close()
    for process in _server_processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)


def _forget_servers() -> None:
    """Leave these interpreters to the process that this one was forked from."""
    _servers.clear()
    for process in _server_processes:
        process.returncode = 0  # not ours to wait for
    _server_processes.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_servers)
