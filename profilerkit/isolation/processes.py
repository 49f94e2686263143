"""Processes of the system: their parents, memory and threads, and how to end them. Everything works on Linux.

Elsewhere the walk over a tree of processes finds nothing, and only the group of the first process is ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

__all__ = [
    "LINUX",
    "MARKER",
    "adopt_orphans",
    "children_of",
    "descendants",
    "die_with_parent",
    "end_tree",
    "marked",
    "pidfd",
    "proportional_bytes",
    "reap",
    "resident_bytes",
    "send_signal",
    "threads_of",
]

LINUX = sys.platform.startswith("linux")
#: The environment variable that whatever a model starts inherits: who lost all its parents is found by it.
MARKER = "PROFILERKIT_ISOLATED"

_PROC = Path("/proc")
_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


def _prctl(option: int, argument: int) -> bool:
    if not LINUX:
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


def adopt_orphans() -> bool:
    """Let processes below this one that lose their parent become its children, not those of the system's first."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Let this process be killed when its parent ends; at once where that has ended already."""
    if _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL) and os.getppid() != parent:
        os._exit(1)


def pidfd(pid: int) -> int | None:
    """Return a descriptor of a process, readable when it ends; None where the system has none."""
    try:
        return os.pidfd_open(pid)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):
        return None


def send_signal(descriptor: int, number: int) -> None:
    """Send a signal through a descriptor of `pidfd`: to that process alone, whoever has its number by now."""
    with suppress(OSError, AttributeError):
        signal.pidfd_send_signal(descriptor, number)  # type: ignore[attr-defined,unused-ignore]


def _read(*parts: object) -> bytes:
    """Return the content of a file in /proc; empty where the process has gone, or is not ours to look at."""
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


def _stat(pid: int) -> list[bytes]:
    """Return the fields of a process from its state on; empty where it has gone. Its name may hold anything."""
    content = _read(pid, "stat")
    return content[content.rfind(b")") + 2 :].split()


def _numbers(names: Iterable[str]) -> Iterator[int]:
    return (int(name) for name in names if name.isdigit())


def _all_pids() -> list[int]:
    try:
        return list(_numbers(entry.name for entry in _PROC.iterdir())) if LINUX else []
    except OSError:
        return []


def descendants(root: int) -> list[int]:
    """Return the processes below one, the nearest first."""
    children = _listed_children if _lists_children() else _children_by_scan()  # one scan for all of them
    pids: list[int] = []
    parents = [root]
    while parents:
        below = [pid for parent in parents for pid in children(parent)]
        pids += below
        parents = below
    return pids


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    return (_listed_children if _lists_children() else _children_by_scan())(pid)


def _lists_children() -> bool:
    pid = os.getpid()
    return _PROC.joinpath(str(pid), "task", str(pid), "children").exists()


def _listed_children(pid: int) -> list[int]:
    try:
        tasks = [entry.name for entry in (_PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []
    return [int(child) for task in tasks for child in _read(pid, "task", task, "children").split()]


def _children_by_scan() -> Callable[[int], list[int]]:
    """Return a function that finds children on systems that do not list them: it reads every process's parent, once."""
    below: dict[int, list[int]] = {}
    for pid in _all_pids():
        fields = _stat(pid)
        if fields:
            below.setdefault(int(fields[1]), []).append(pid)
    return lambda pid: below.get(pid, [])


def threads_of(pid: int) -> int:
    """Return how many threads a process has; 0 where it has gone."""
    fields = _stat(pid)
    return int(fields[17]) if len(fields) > 17 else 0


def resident_bytes(pid: int) -> int:
    """Return the resident bytes of a process that no file holds; pages that forked processes share count in each."""
    fields = dict(line.split(b":", 1) for line in _read(pid, "status").splitlines() if b":" in line)
    return sum(int(fields[name].split()[0]) for name in (b"RssAnon", b"RssShmem") if name in fields) * 1024


def proportional_bytes(pid: int) -> int:
    """Return the same with shared pages divided among the processes that share them; slower than `resident_bytes`."""
    fields = dict(line.split(b":", 1) for line in _read(pid, "smaps_rollup").splitlines() if b":" in line)
    sizes = [fields[name] for name in (b"Pss_Anon", b"Pss_Shmem") if name in fields]
    return sum(int(size.split()[0]) for size in sizes) * 1024 if sizes else resident_bytes(pid)


def marked(marker: str, session: int | None = None) -> list[int]:
    """Return the processes that inherited a marker, or that are of a session: the rest of a tree without its root."""
    entry = f"{MARKER}={marker}".encode()
    current = os.getpid()
    pids = []
    for pid in _all_pids():
        fields = _stat(pid)
        if pid == current or not fields or fields[0] in (b"Z", b"X"):
            continue
        if (session is not None and int(fields[3]) == session) or entry in _read(pid, "environ").split(b"\0"):
            pids.append(pid)
    return pids


def end_tree(find: Callable[[], Iterable[int]], seconds: float = 5.0) -> int:
    """Kill what ``find`` returns, again and again until it returns nothing; return how many are left after all.

    A process that is stopped, or that ignores every signal that can be ignored, ends too; one that waits inside the
    system for a device does not.
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
    """Return the wait status of every child of this process that has ended, by its number."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended
