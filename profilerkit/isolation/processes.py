"""Processes: their parents, memory and threads, and how to end them. All works on Linux.

Elsewhere the walk over a tree of processes finds nothing, and only the group of the first process is ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "LINUX",
    "MARKER",
    "adopt_orphans",
    "count_threads",
    "data_bytes",
    "descendants",
    "die_with_parent",
    "end_tree",
    "find_marked",
    "pidfd",
    "proportional_bytes",
    "reap",
    "resident_bytes",
    "send_signal",
]

_PROC = Path("/proc")
#: Whether this is a Linux that lists the children of a process, which it does if it was built so.
LINUX: bool = sys.platform.startswith("linux") and Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()
#: The environment variable that whatever a model starts inherits: who lost all its parents is found by it.
MARKER = "PROFILERKIT_ISOLATED"

#: Options of prctl(2).
_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


def _prctl(option: int, argument: int) -> bool:
    """Set an option of this process; return whether that worked."""
    if not LINUX:
        return False
    import ctypes  # needed on Linux alone

    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


def adopt_orphans() -> bool:
    """Make this process the parent of all processes below it that lose their own parent."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends; at once if the parent has ended already."""
    if _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL) and os.getppid() != parent:
        os._exit(1)


def pidfd(pid: int) -> int | None:
    """Return a descriptor of a process that is readable when the process ends; None if the system has none."""
    try:
        return os.pidfd_open(pid)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):
        return None


def send_signal(descriptor: int, number: int) -> None:
    """Send a signal through a descriptor of `pidfd`: it cannot reach another process that got the same number."""
    with suppress(OSError, AttributeError):
        signal.pidfd_send_signal(descriptor, number)  # type: ignore[attr-defined,unused-ignore]


def _read(*parts: object) -> bytes:
    """Return the content of a file in /proc; empty if the process has ended or belongs to another user."""
    try:
        file = os.open("/".join(map(str, (_PROC, *parts))), os.O_RDONLY)
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(file, 2**16), b""))
    except OSError:
        return b""
    finally:
        os.close(file)


class _Stat(NamedTuple):
    """The facts of the system about a process: the fields of /proc/PID/stat that are needed here."""

    state: bytes
    session: int
    threads: int


def _read_stat(pid: int) -> _Stat | None:
    """Return the facts of the system about a process; None if it has ended."""
    content = _read(pid, "stat")
    fields = content[content.rfind(b")") + 2 :].split()  # the fields after the name, which may contain anything
    if len(fields) < 18:
        return None
    return _Stat(fields[0], session=int(fields[3]), threads=int(fields[17]))


def _list_all_pids() -> list[int]:
    try:
        return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if LINUX else []
    except OSError:
        return []


def descendants(root: int) -> list[int]:
    """Return all processes below one, the nearest first."""
    pids: list[int] = []
    parents = [root] if LINUX else []
    while parents:
        parents = [pid for parent in parents for pid in _read_children(parent)]
        pids += parents
    return pids


def _read_children(pid: int) -> list[int]:
    try:
        tasks = [entry.name for entry in (_PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []
    return [int(child) for task in tasks for child in _read(pid, "task", task, "children").split()]


def count_threads(pid: int) -> int:
    """Return the number of threads of a process; 0 if it has ended."""
    stat = _read_stat(pid)
    return 0 if stat is None else stat.threads


def resident_bytes(pid: int) -> int:
    """Return the resident bytes of a process without file pages; shared pages count in each forked process.

    With file pages where the system does not tell them apart, as in some sandboxes: none at all would pass every limit.
    """
    return sum(_read_sizes(pid, "status", (b"RssAnon", b"RssShmem")) or _read_sizes(pid, "status", (b"VmRSS",)))


def proportional_bytes(pid: int) -> int:
    """Return the same, with shared pages divided among their processes; slower than `resident_bytes`."""
    sizes = _read_sizes(pid, "smaps_rollup", (b"Pss_Anon", b"Pss_Shmem"))
    return sum(sizes) if sizes else resident_bytes(pid)


def data_bytes() -> int:
    """Return the bytes of data of this process, as the system counts them for the limit ``RLIMIT_DATA``."""
    return sum(_read_sizes(os.getpid(), "status", (b"VmData",)))


def _read_sizes(pid: int, file: str, names: Collection[bytes]) -> list[int]:
    """Return the bytes of names in a file of a process, which has lines such as ``RssAnon:  1024 kB``."""
    fields = dict(line.split(b":", 1) for line in _read(pid, file).splitlines() if b":" in line)
    return [int(fields[name].split()[0]) * 1024 for name in names if name in fields]


def find_marked(marker: str, session: int | None = None, channel: int | None = None) -> list[int]:
    """Return the processes of a tree that has lost its root.

    They inherited a marker, belong to a session, or hold a socket, ``channel``, by its inode. The system shows the
    environment with which a program was started: a copy of a process without another program is known by its socket.
    """
    entry = f"{MARKER}={marker}".encode()
    current = os.getpid()
    pids = []
    for pid in _list_all_pids():
        stat = _read_stat(pid)
        if pid == current or stat is None or stat.state in (b"Z", b"X"):  # it has ended
            continue
        is_marked = stat.session == session or entry in _read(pid, "environ").split(b"\0")
        if is_marked or (channel is not None and _holds_socket(pid, channel)):
            pids.append(pid)
    return pids


def _holds_socket(pid: int, inode: int) -> bool:
    """Return whether a process has a socket open; False if it has ended or belongs to another user."""
    try:
        entries = list((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return False
    for entry in entries:
        with suppress(OSError):  # it was closed meanwhile
            if str(entry.readlink()) == f"socket:[{inode}]":
                return True
    return False


def end_tree(find: Callable[[], Iterable[int]], seconds: float = 5.0) -> int:
    """Kill the processes that ``find`` returns until it returns none; return the number of processes left.

    Stopped processes, and processes that ignore signals, end too. A process that waits for a device inside the system
    does not.
    """
    deadline = time.monotonic() + seconds
    while True:
        left = list(find())
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not left or time.monotonic() > deadline:
            return len(left)
        time.sleep(0.002)


def reap() -> dict[int, int]:
    """Return the wait status of every child of this process that has ended, by its process number."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended
