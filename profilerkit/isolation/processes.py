"""Processes of the system: their parents, memory and threads, and how to end them. Everything works on Linux.

Elsewhere the walk over a tree of processes finds nothing, and only the group of the first process is ended.
"""

from __future__ import annotations

import os
import select
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
    "count_threads",
    "cpu_seconds",
    "cpu_seconds_of_children",
    "descendants",
    "die_with_parent",
    "end_tree",
    "find_children",
    "find_marked",
    "has_ended",
    "pidfd",
    "proportional_bytes",
    "reap",
    "resident_bytes",
    "send_signal",
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


def has_ended(descriptor: int) -> bool:
    """Return whether the process of a descriptor of `pidfd` has ended, also where nobody has waited for it yet."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


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


def _read_stat(pid: int) -> list[bytes]:
    """Return the fields of a process from its state on, whatever its name contains; empty if it has ended."""
    content = _read(pid, "stat")
    return content[content.rfind(b")") + 2 :].split()


def _read_numbers(names: Iterable[str]) -> Iterator[int]:
    return (int(name) for name in names if name.isdigit())


def _list_all_pids() -> list[int]:
    try:
        return list(_read_numbers(entry.name for entry in _PROC.iterdir())) if LINUX else []
    except OSError:
        return []


def descendants(root: int) -> list[int]:
    """Return all processes below one, the nearest first."""
    children = _read_children if _lists_children() else _scan_for_children()  # one scan for all of them
    pids: list[int] = []
    parents = [root]
    while parents:
        below = [pid for parent in parents for pid in children(parent)]
        pids += below
        parents = below
    return pids


def find_children(pid: int) -> list[int]:
    """Return the children of a process."""
    return (_read_children if _lists_children() else _scan_for_children())(pid)


def _lists_children() -> bool:
    pid = os.getpid()
    return _PROC.joinpath(str(pid), "task", str(pid), "children").exists()


def _read_children(pid: int) -> list[int]:
    try:
        tasks = [entry.name for entry in (_PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []
    return [int(child) for task in tasks for child in _read(pid, "task", task, "children").split()]


def _scan_for_children() -> Callable[[int], list[int]]:
    """Return a function that finds children on systems that do not list them; it reads all parents once."""
    below: dict[int, list[int]] = {}
    for pid in _list_all_pids():
        fields = _read_stat(pid)
        if fields:
            below.setdefault(int(fields[1]), []).append(pid)
    return lambda pid: below.get(pid, [])


def count_threads(pid: int) -> int:
    """Return the number of threads of a process; 0 if it has ended."""
    fields = _read_stat(pid)
    return int(fields[17]) if len(fields) > 17 else 0


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and of those of its children that have ended; 0 if it has ended."""
    fields = _read_stat(pid)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") if len(fields) > 17 else 0.0


def cpu_seconds_of_children() -> float:
    """Return the processor time of all children of this process that have ended, and of theirs."""
    times = os.times()
    return times.children_user + times.children_system


def resident_bytes(pid: int) -> int:
    """Return the resident bytes of a process without file pages; shared pages count in each forked process."""
    fields = dict(line.split(b":", 1) for line in _read(pid, "status").splitlines() if b":" in line)
    return sum(int(fields[name].split()[0]) for name in (b"RssAnon", b"RssShmem") if name in fields) * 1024


def proportional_bytes(pid: int) -> int:
    """Return the same, with shared pages divided among their processes; slower than `resident_bytes`."""
    fields = dict(line.split(b":", 1) for line in _read(pid, "smaps_rollup").splitlines() if b":" in line)
    sizes = [fields[name] for name in (b"Pss_Anon", b"Pss_Shmem") if name in fields]
    return sum(int(size.split()[0]) for size in sizes) * 1024 if sizes else resident_bytes(pid)


def find_marked(marker: str, session: int | None = None) -> list[int]:
    """Return the processes that inherited a marker or belong to a session: what is left of a tree without its root."""
    entry = f"{MARKER}={marker}".encode()
    current = os.getpid()
    pids = []
    for pid in _list_all_pids():
        fields = _read_stat(pid)
        if pid == current or not fields or fields[0] in (b"Z", b"X"):
            continue
        if (session is not None and int(fields[3]) == session) or entry in _read(pid, "environ").split(b"\0"):
            pids.append(pid)
    return pids


def end_tree(find: Callable[[], Iterable[int]], seconds: float = 5.0) -> int:
    """Kill the processes that ``find`` returns until it returns none; return the number of those that are left.

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
