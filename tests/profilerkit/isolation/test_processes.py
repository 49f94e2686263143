"""Trees of processes are found and ended, wherever their members went."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from time_limits import run_python

from profilerkit.isolation import processes

linux = pytest.mark.skipif(not processes.LINUX, reason="only Linux says who started whom")

#: A program that starts one in a session of its own, and says who both are. They end when nobody can write to them any
#: more, whatever became of this process: they would keep open what it writes to.
FAMILY = """
import os, signal, subprocess, sys
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    command = [sys.executable, "-c", FAMILY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        parent, child = map(int, process.stdout.readline().split())
        descriptor = processes.pidfd(child)  # its number may be another process's by the end
        assert descriptor is not None
        try:
            yield parent, child
        finally:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)  # it may be stopped
            os.close(descriptor)


@linux
def test_the_processes_below_one_are_found(family: tuple[int, int]) -> None:
    parent, child = family
    assert {parent, child} <= set(processes.descendants(os.getpid()))
    assert processes.descendants(parent) == [child]


@linux
def test_a_tree_is_ended_though_it_is_stopped_and_hears_nothing(family: tuple[int, int]) -> None:
    parent, child = family
    os.kill(child, signal.SIGSTOP)

    def left() -> list[int]:
        states = {pid: processes._read_fields(pid, "status").get(b"State", b"Z") for pid in (parent, child)}
        return [pid for pid, state in states.items() if b"Z" not in state]

    assert processes.end_tree(left) == 0
    assert left() == []


def test_what_cannot_be_ended_is_counted() -> None:
    assert processes.end_tree(lambda: [2**30], seconds=0) == 1  # no process has such a number


@linux
def test_memory_and_threads_are_counted() -> None:
    """In a process of its own: in one of many tests other threads free memory, and children share it."""
    code = """
import json, os
from profilerkit.isolation import processes
own = os.getpid()
before = processes.resident_bytes(own)
kept = bytearray(b"x") * (64 * 2**20)
after = processes.resident_bytes(own)
print(json.dumps([after - before, after, processes.proportional_bytes(own), processes.count_threads(own)]))
"""
    grown, resident, proportional, threads = json.loads(run_python(code).stdout)
    assert 0.9 * 64 * 2**20 < grown < 1.5 * 64 * 2**20
    assert abs(proportional - resident) < 0.2 * resident
    assert threads == 1
    gone = 2**30
    counts = processes.resident_bytes(gone), processes.proportional_bytes(gone), processes.count_threads(gone)
    assert counts == (0, 0, 0)


@pytest.mark.parametrize(
    ("status", "kilobytes"),
    [
        ("VmRSS: 9 kB\nRssAnon: 4 kB\nRssFile: 2 kB\nRssShmem: 3 kB\n", 4 + 3),
        ("VmRSS: 9 kB\nRssAnon: 0 kB\nRssFile: 9 kB\nRssShmem: 0 kB\n", 0),
        ("VmRSS: 9 kB\nThreads: 1\n", 9),
        ("State: Z (zombie)\n", 0),
    ],
    ids=["apart", "of files alone", "not told apart", "ended"],
)
def test_memory_is_never_none_where_file_pages_are_not_told_apart(
    status: str, kilobytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/status").write_text(status)
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert processes.resident_bytes(7) == processes.proportional_bytes(7) == kilobytes * 1024


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
def test_a_descriptor_of_a_process_says_when_it_ends() -> None:
    process = subprocess.Popen(["sleep", "600"])
    descriptor = processes.pidfd(process.pid)
    assert descriptor is not None
    process.kill()
    assert select.select([descriptor], [], [], 10)[0] == [descriptor]
    process.wait()
    os.close(descriptor)


def test_elsewhere_nothing_is_found_and_nothing_breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "LINUX", False)
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert processes.descendants(os.getpid()) == []
    assert processes.adopt_orphans() is False
    assert processes.pidfd(os.getpid()) is None
    assert processes.resident_bytes(os.getpid()) == 0
