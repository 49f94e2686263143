"""A control group (cgroup v2) for one process, if the system lets this user create one.

The group limits the memory and the number of threads of all its processes, and all of them can be ended at once. It is
created below the nearest group around this process that delegates the memory controller and is writable, as in a
systemd user session. The only change to the system is one folder, which is removed at the end.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from .limits import Limits

__all__ = ["ControlGroup", "find_group_folder"]


def find_group_folder() -> Path | None:
    """Return the folder in which a control group with a memory limit can be made, or None."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return _nearest_usable(_find_mount(mounts), _group_of_process(groups))


def _find_mount(mounts: str) -> Path | None:
    """Return where cgroup v2 is mounted, from the text of mountinfo."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if after.split()[:1] == ["cgroup2"] and len(fields) > 4:
            return Path(fields[4])
    return None


def _group_of_process(groups: str) -> str | None:
    """Return the v2 group of this process, from the text of /proc/self/cgroup."""
    return next((line.removeprefix("0::") for line in groups.splitlines() if line.startswith("0::")), None)


def _nearest_usable(root: Path | None, group: str | None) -> Path | None:
    if root is None or group is None or ".." in group:
        return None
    folder = root / group.strip("/")
    for candidate in (folder, *folder.parents):
        if not candidate.is_relative_to(root):
            break
        if _usable(candidate):
            return candidate
    return None


def _usable(folder: Path) -> bool:
    """Return whether groups with a memory limit can be created in a folder, and processes be moved into them."""
    try:
        handed_on = (folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()
    except OSError:
        return False
    return "memory" in handed_on and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


class ControlGroup:
    """A group with limits, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, parent: Path | None, name: str, limits: Limits) -> ControlGroup | None:
        """Return a new group with the limits, or None if the system refuses it."""
        if parent is None:
            return None
        group = cls(parent / name)
        try:
            group.folder.mkdir()
            if limits.memory is not None:
                group._write("memory.max", limits.memory)
                group._write("memory.oom.group", 1, needed=False)
                group._write("memory.swap.max", 0, needed=False)
            if limits.max_threads is not None:
                group._write("pids.max", limits.max_threads, needed=False)
        except OSError:
            group.remove()
            return None
        return group

    def _write(self, name: str, value: int, needed: bool = True) -> None:
        try:
            (self.folder / name).write_text(str(value), encoding="utf-8")
        except OSError:
            if needed:
                raise

    def _count(self, name: str, event: str) -> int:
        with suppress(OSError, ValueError):
            for line in (self.folder / name).read_text(encoding="utf-8").splitlines():
                if line.partition(" ")[0] == event:
                    return int(line.partition(" ")[2])
        return 0

    def join(self) -> None:
        """Move the calling process into the group; processes that it starts later are in the group too."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")

    def members(self) -> list[int]:
        """Return the processes in the group."""
        try:
            return [int(line) for line in (self.folder / "cgroup.procs").read_text(encoding="utf-8").split()]
        except (OSError, ValueError):
            return []

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the system killed a process of the group because of the memory limit."""
        return self._count("memory.events", "oom_kill") > 0

    @property
    def ran_out_of_threads(self) -> bool:
        """Whether a process of the group tried to exceed the limit of threads."""
        return self._count("pids.events", "max") > 0

    @property
    def peak(self) -> int:
        """The most bytes that the group used at once; 0 if the system does not report it."""
        try:
            return int((self.folder / "memory.peak").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def kill(self) -> None:
        """End every process of the group."""
        try:
            if not (self.folder / "cgroup.kill").exists():  # a system before Linux 5.14
                raise OSError
            (self.folder / "cgroup.kill").write_text("1", encoding="utf-8")
        except OSError:
            for pid in self.members():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self, seconds: float = 1.0) -> bool:
        """Remove the group, which may take a moment after its last process ended; return whether that worked."""
        deadline = time.monotonic() + seconds
        while self.folder.exists():
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.01)
        return True
