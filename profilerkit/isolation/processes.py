"""Processes: their children, memory and threads, and how to end them. All works on Linux.

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

__all__ = [
    "LINUX",
    "adopt_orphans",
    "count_threads",
    "data_bytes",
    "descendants",
    "die_with_parent",
    "end_tree",
    "pidfd",
    "proportional_bytes",
    "reap",
    "resident_bytes",
]

_PROC = Path("/proc")
#: Whether this is a Linux that lists the children of a process, which it does if it was built so.
LINUX: bool = sys.platform.startswith("linux") and Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()

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


def _read(*parts: object) -> bytes:
    """Return the content of a file in /proc; empty if the process has ended or belongs to another user."""
    try:
        return _PROC.joinpath(*map(str, parts)).read_bytes()
    except OSError:
        return b""


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
    return int(_read_fields(pid, "status").get(b"Threads", b"0"))


def resident_bytes(pid: int) -> int:
    """Return the resident bytes of a process without file pages; shared pages count in each forked process.

    With file pages where the system does not tell them apart, as in some sandboxes: none at all would pass every limit.
    """
    fields = _read_fields(pid, "status")
    return sum(_pick_sizes(fields, (b"RssAnon", b"RssShmem")) or _pick_sizes(fields, (b"VmRSS",)))


def proportional_bytes(pid: int) -> int:
    """Return the same, with shared pages divided among their processes; slower than `resident_bytes`."""
    sizes = _pick_sizes(_read_fields(pid, "smaps_rollup"), (b"Pss_Anon", b"Pss_Shmem"))
    return sum(sizes) if sizes else resident_bytes(pid)


def data_bytes() -> int:
    """Return the bytes of data of this process, as the system counts them for the limit ``RLIMIT_DATA``."""
    return sum(_pick_sizes(_read_fields(os.getpid(), "status"), (b"VmData",)))


def _read_fields(pid: int, file: str) -> dict[bytes, bytes]:
    """Return the values in a file of a process, which has lines such as ``Threads:  2``, by their names."""
    return dict(line.split(b":", 1) for line in _read(pid, file).splitlines() if b":" in line)


def _pick_sizes(fields: dict[bytes, bytes], names: Collection[bytes]) -> list[int]:
    """Return the bytes of those names that there are: 1,048,576 for ``1024 kB``."""
    return [int(fields[name].split()[0]) * 1024 for name in names if name in fields]


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
