"""Trees of processes are found and ended, wherever their members went; control groups, where there are any."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from profilerkit.isolation import cgroups, processes
from profilerkit.isolation.cgroups import ControlGroup
from profilerkit.isolation.limits import Limits

linux = pytest.mark.skipif(not processes.LINUX, reason="only Linux says who started whom")

#: A program that starts one in a session of its own, and says who both are.
FAMILY = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    environment = {**os.environ, processes.MARKER: "the-marker-of-this-test"}
    process = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    parent, child = map(int, process.stdout.readline().split())
    yield parent, child
    for pid in (parent, child):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
    process.wait()
    process.stdout.close()


@linux
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "by a scan"])
def test_the_processes_below_one_are_found(
    listed: bool, family: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_lists_children", lambda: listed)
    parent, child = family
    assert {parent, child} <= set(processes.descendants(os.getpid()))
    assert processes.descendants(parent) == [child]
    assert processes.find_children(parent) == [child]


@linux
def test_a_marker_and_a_session_find_who_lost_all_parents(family: tuple[int, int]) -> None:
    parent, child = family
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert processes.find_marked("the-marker-of-this-test") == [child]
    assert processes.find_marked("no such marker", session=child) == [child]
    assert processes.find_marked("no such marker") == []


@linux
def test_a_tree_is_ended_though_it_is_stopped_and_hears_nothing(family: tuple[int, int]) -> None:
    parent, child = family
    os.kill(child, signal.SIGSTOP)

    def left() -> list[int]:
        processes_left = [pid for pid in (parent, child) if processes._stat(pid)[:1] not in ([], [b"Z"])]
        return processes_left

    assert processes.end_tree(left) == 0
    assert left() == []


def test_what_cannot_be_ended_is_counted() -> None:
    assert processes.end_tree(lambda: [2**30], seconds=0) == 1  # no process has such a number


@linux
def test_memory_and_threads_are_counted() -> None:
    own = os.getpid()
    before = processes.resident_bytes(own)
    kept = bytearray(b"x") * (64 * 2**20)
    grown = processes.resident_bytes(own) - before
    assert 0.9 * len(kept) < grown < 1.5 * len(kept)
    assert abs(processes.proportional_bytes(own) - processes.resident_bytes(own)) < 0.2 * processes.resident_bytes(own)
    assert processes.count_threads(own) >= 1
    gone = 2**30
    assert (processes.resident_bytes(gone), processes.proportional_bytes(gone), processes.count_threads(gone)) == (
        0,
        0,
        0,
    )


@linux
def test_a_name_with_brackets_and_blanks_is_no_trouble(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "600"])
    try:
        deadline = time.monotonic() + 10
        while b") R 1 (" not in Path(f"/proc/{process.pid}/stat").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.pid in processes.descendants(os.getpid())
        assert processes.count_threads(process.pid) == 1
    finally:
        process.kill()
        process.wait()


@linux
def test_a_descriptor_of_a_process_says_when_it_ends_and_takes_signals() -> None:
    process = subprocess.Popen(["sleep", "600"])
    descriptor = processes.pidfd(process.pid)
    assert descriptor is not None
    assert not processes.has_ended(descriptor)
    processes.send_signal(descriptor, signal.SIGKILL)
    assert select.select([descriptor], [], [], 10)[0] == [descriptor]
    assert processes.has_ended(descriptor), "although nobody has waited for it"
    assert process.wait() == -signal.SIGKILL
    processes.send_signal(descriptor, signal.SIGKILL)  # nobody is there any more: that is no error
    os.close(descriptor)


def test_elsewhere_nothing_is_found_and_nothing_breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "LINUX", False)
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert processes.descendants(os.getpid()) == []
    assert processes.find_marked("any") == []
    assert processes.adopt_orphans() is False
    assert processes.pidfd(os.getpid()) is None
    assert processes.resident_bytes(os.getpid()) == 0


# Control groups -------------------------------------------------------------------------------------------------------

MOUNTS = """
22 1 0:21 / /proc rw - proc proc rw
30 22 0:26 / {root} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return what looks like a mounted hierarchy: user.slice hands on the memory controller, app.scope does not."""
    folder = tmp_path / "user.slice" / "app.scope"
    folder.mkdir(parents=True)
    for place, handed_on in ((tmp_path, "cpu"), (folder.parent, "memory pids"), (folder, "")):
        (place / "cgroup.subtree_control").write_text(handed_on)
        (place / "cgroup.procs").write_text("")
    return tmp_path


def test_the_nearest_group_that_hands_on_memory_is_found(tree: Path) -> None:
    root = cgroups._find_mount(MOUNTS.format(root=tree))
    assert root == tree
    assert cgroups._group_of_process("4:memory:/x\n0::/user.slice/app.scope\n") == "/user.slice/app.scope"
    assert cgroups._nearest_usable(root, "/user.slice/app.scope") == tree / "user.slice"
    assert cgroups._nearest_usable(root, "/") is None
    assert cgroups._nearest_usable(root, "/../elsewhere") is None
    assert cgroups._nearest_usable(None, "/") is None
    assert cgroups._group_of_process("4:memory:/x\n") is None
    assert cgroups._find_mount("22 1 0:21 / /proc rw - proc proc rw\n") is None


def test_this_machine_is_asked_without_an_error() -> None:
    found = cgroups.find_group_folder()
    assert found is None or (found / "cgroup.procs").exists()


def made(tree: Path, limits: Limits) -> ControlGroup:
    group = ControlGroup.create(tree / "user.slice", "profilerkit-test", limits)
    assert group is not None
    return group


def test_a_group_gets_its_limits_and_its_process(tree: Path) -> None:
    group = made(tree, Limits(memory=2**20, max_threads=7))
    group.join()
    written = {path.name: path.read_text() for path in group.folder.iterdir()}
    assert written == {
        "memory.max": str(2**20),
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "pids.max": "7",
        "cgroup.procs": str(os.getpid()),
    }
    assert group.members() == [os.getpid()]


def test_a_group_without_a_memory_limit_sets_none(tree: Path) -> None:
    assert {path.name for path in made(tree, Limits(max_threads=7)).folder.iterdir()} == {"pids.max"}


def test_what_happened_in_a_group_is_read(tree: Path) -> None:
    group = made(tree, Limits())
    assert (group.ran_out_of_memory, group.ran_out_of_threads, group.peak) == (False, False, 0)
    (group.folder / "memory.events").write_text("low 0\nmax 12\noom 1\noom_kill 1\n")
    (group.folder / "pids.events").write_text("max 3\n")
    (group.folder / "memory.peak").write_text("4096\n")
    assert (group.ran_out_of_memory, group.ran_out_of_threads, group.peak) == (True, True, 4096)


@linux
def test_a_group_is_killed_at_once_or_one_by_one(tree: Path) -> None:
    group = made(tree, Limits())
    process = subprocess.Popen(["sleep", "600"])
    (group.folder / "cgroup.procs").write_text(f"{process.pid}\n")
    group.kill()  # no cgroup.kill: a system before Linux 5.14
    assert process.wait(10) == -signal.SIGKILL
    (group.folder / "cgroup.kill").write_text("")
    group.kill()
    assert (group.folder / "cgroup.kill").read_text() == "1"


def test_a_group_that_cannot_be_made_is_none(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ControlGroup.create(None, "x", Limits()) is None
    assert ControlGroup.create(tree / "nowhere", "x", Limits()) is None

    def refuse(self: Path, *args: object, **kwargs: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert ControlGroup.create(tree / "user.slice", "refused", Limits(memory=2**20)) is None
    assert not (tree / "user.slice" / "refused").exists()


def test_a_group_is_removed_when_its_last_process_has_ended(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = made(tree, Limits())
    assert group.remove() is True
    assert not group.folder.exists()
    busy = made(tree, Limits(max_threads=1))  # the file in it stands for a process
    assert busy.remove(seconds=0) is False


def has_group_folder() -> bool:
    return cgroups.find_group_folder() is not None


@pytest.mark.skipif(not has_group_folder(), reason="no control group may be made here")
def test_a_real_group_holds_a_real_process_to_its_memory() -> None:
    import planted

    from profilerkit import isolated

    report = isolated(f"{planted.__file__}:allocates_100_gb", memory="200 MiB", timeout=60, num_iters=3)
    assert "the process was ended at its memory limit of 200 MiB while" in report.status("execution_time").missing[0]
    assert "by control group" in report.environment["isolation"]
