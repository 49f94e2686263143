"""The small process between the caller and the model: it starts the process of the model, limits it, and ends it.

A process that the model started and that loses its parent becomes a child of this process, also in a session of its
own. So no process survives the end of the model or of the caller, even if the caller is killed. This process imports no
framework and needs little time: it reads /proc every tenth of a second, or every fiftieth if memory is limited.

Control groups could enforce the limits too, where this user may create any; looking does so on every Linux.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Literal, NoReturn, TypeAlias

from . import processes
from .channel import Channel, ChannelError
from .limits import Limits

__all__ = ["Ending", "Supervisor", "main", "supervise"]

#: Seconds between two looks at the memory, if it is limited.
WATCHING_MEMORY = 0.02
#: Seconds between two looks at threads and processes.
WATCHING = 0.1
#: Seconds that a model whose time is over gets to write down where it is; it is ended all the same.
LAST_WORDS = 0.1
#: The exit code of a model's process that could not begin, or whose code returned; it is EX_SOFTWARE of sysexits.h.
_NOT_BEGUN = 70

#: Why the supervisor has ended a process: at one of two limits, or because the caller has asked for it or has ended.
Cause: TypeAlias = Literal["memory", "threads", "asked"]


@dataclass(frozen=True)
class Ending:
    """How a process ended.

    Attributes:
        signal: The signal that ended it, if one did.
        code: Its exit code, if it left by itself.
        why: Why the supervisor ended it, if it did.
        peak_bytes: The most memory that was seen; 0 if memory was not limited.
        threads: The number of threads at their limit; 0 if it was not reached.
        survivors: How many of its processes could not be ended.
    """

    signal: int | None = None
    code: int | None = None
    why: Cause | None = None
    peak_bytes: int = 0
    threads: int = 0
    survivors: int = 0


def main() -> NoReturn:
    """Run as a program; its arguments are inherited descriptors."""
    supervise(*map(int, sys.argv[1:4]))


def supervise(control: int, channel: int, job: int) -> NoReturn:
    """Start the process of a model with limits, wait until it ends, report how, and end this process.

    Args:
        control: The descriptor of the socket to the caller.
        channel: The descriptor of the socket that the model's process sends its results through.
        job: The descriptor of the file with the job (`profilerkit.isolation.job_file`).
    """
    try:
        gc.disable()  # the objects of a forked process belong to its parent
        file = os.fdopen(job, "rb")
        facts = pickle.load(file)
        os.environ.clear()
        os.environ.update(facts["environ"])

        def child() -> None:
            from .child import run_job

            run_job(socket.socket(fileno=channel), file, facts)

        supervisor = Supervisor(socket.socket(fileno=control), Limits(**facts["limits"]), facts["caller"])
        supervisor.run(child, [channel, job])
    except BaseException as error:
        with suppress(Exception):
            sys.stderr.write(f"profilerkit: the supervisor of an isolated model raised {error!r}\n")
            sys.stderr.flush()
    finally:
        os._exit(0)


@dataclass
class Supervisor:
    """Starts one child, enforces its limits, and ends it with all processes that it has started.

    Attributes:
        control: The socket that leads to the caller.
        limits: The limits of the child and of all processes below it.
        caller: The process of the caller.
        child: The process of the child, once it is started.
    """

    control: socket.socket
    limits: Limits
    caller: int
    child: int = 0
    #: The wait status of the child, once it has ended; why it is to be ended, once that is known.
    _status: int | None = None
    _why: Cause | None = None
    _peak_bytes: int = 0
    _threads: int = 0
    #: The bytes of this process, which the child has from its start: they are not the model's.
    _base: int = 0
    #: The processes below this one at the last walk over them, and when the next walk is due.
    _tree: list[int] = field(default_factory=list)
    _next_walk: float = 0.0

    def run(self, child: Callable[[], None], for_child: list[int]) -> None:
        """Start the child, watch it, and report how it ended."""
        processes.adopt_orphans()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's, which says whether to end the child
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, no child can be waited for
        self._base = processes.resident_bytes(os.getpid())
        self._start(child)
        for descriptor in (*for_child, 0, 1):  # the reader of a pipe waits until every process has closed the other end
            with suppress(OSError):
                os.close(descriptor)
        self._watch()
        ending = self.end()
        with suppress(OSError):
            Channel(self.control).send(**asdict(ending))

    def _start(self, child: Callable[[], None]) -> None:
        """Fork the child, which limits itself, and runs a function that does not return."""
        supervisor = os.getpid()
        self.child = os.fork()
        if self.child == 0:
            try:
                self.control.close()
                processes.die_with_parent(supervisor)
                os.setsid()
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                limit_resources(self.limits)
                child()
            finally:
                os._exit(_NOT_BEGUN)

    # Watching ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Wait until the child ends, a limit is reached, or the caller ends or asks to stop."""
        control, caller, child = self.control.fileno(), processes.pidfd(self.caller), processes.pidfd(self.child)
        poll = select.poll()
        for descriptor in (control, caller, child):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        interval = WATCHING if self.limits.memory is None else WATCHING_MEMORY
        while self._status is None and self._why is None:
            for descriptor, _ in poll.poll(interval * 1000):
                if descriptor == control:
                    self._receive()
                elif descriptor == caller:
                    self._why = "asked"  # the caller has ended
            self._look()  # also if the child has ended, whose descriptor only ends the waiting

    def _receive(self) -> None:
        """Process the message of the caller, which is to end all; stop too if the caller has ended."""
        try:
            message = Channel(self.control).receive()
        except (ChannelError, OSError):
            message = {}
        if message.get("dump"):
            with suppress(OSError):
                os.kill(self.child, signal.SIGUSR2)
            time.sleep(LAST_WORDS)
        self._reap()
        if self._status is None:  # of a child that has ended before, its status says why
            self._why = "asked"

    def _look(self) -> None:
        """Note whether the child has ended or has reached a limit."""
        self._reap()
        now = time.monotonic()
        if now >= self._next_walk:
            self._tree = processes.descendants(os.getpid()) or [self.child]
            self._look_at_threads()
            self._next_walk = now + WATCHING
        if self.limits.memory is not None:
            self._look_at_memory(self.limits.memory)

    def _look_at_threads(self) -> None:
        if self.limits.max_threads is None:
            return
        count = sum(map(processes.count_threads, self._tree))
        if count > self.limits.max_threads:
            self._why = self._why or "threads"
            self._threads = count

    def _look_at_memory(self, limit: int) -> None:
        resident = sum(map(processes.resident_bytes, self._tree)) - self._base
        if resident > limit and len(self._tree) > 1:  # shared pages may be counted several times: look again
            resident = sum(map(processes.proportional_bytes, self._tree)) - self._base
        self._peak_bytes = max(self._peak_bytes, resident)
        if resident > limit:
            self._why = self._why or "memory"

    # Ending -----------------------------------------------------------------------------------------------------

    def end(self) -> Ending:
        """End all remaining processes, and return how the child ended."""
        survivors = processes.end_tree(self._find_left)
        self._reap()
        status = self._status
        return Ending(
            signal=os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            code=os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
            why=self._why,
            peak_bytes=self._peak_bytes,
            threads=self._threads,
            survivors=survivors,
        )

    def _reap(self) -> None:
        """Wait for all children that have ended, and keep the status of the model's own process."""
        self._status = processes.reap().get(self.child, self._status)

    def _find_left(self) -> list[int]:
        """Return the processes that still exist, the child first; elsewhere than on Linux its group is killed here."""
        self._reap()
        if processes.LINUX:
            return processes.descendants(os.getpid())
        if self._status is not None:
            return []
        with suppress(OSError):
            os.killpg(self.child, signal.SIGKILL)
        return [self.child]


def limit_resources(limits: Limits) -> None:
    """Set the limits of the system for each process: no memory dump, and data up to the memory limit and some more.

    The supervisor watches the resident memory of all processes. This is a second limit, beyond which a request for
    memory is refused at once. It limits data, because frameworks reserve far more addresses than they use. The addition
    to the memory limit is for data that is reserved and not used: a tenth, half a GiB, and the stacks of eight threads
    of 8 MiB for each core.
    """
    import resource

    def lower(kind: int, value: int) -> None:
        hard = resource.getrlimit(kind)[1]
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, hard if kind == resource.RLIMIT_CORE else soft))

    lower(resource.RLIMIT_CORE, 1)  # not 0: with 1 a program that takes dumps is not started either
    if limits.memory is not None:
        spare = limits.memory // 10 + 2**29 + 2**26 * (os.cpu_count() or 1)
        lower(resource.RLIMIT_DATA, processes.data_bytes() + limits.memory + spare)
