"""Audits that are killed, at any moment: the next one ends with exactly the rows of an undisturbed one."""

from __future__ import annotations

import functools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
from audited import MACS, write_nets
from time_limits import run_program, run_python

from profilerkit import StoreError
from profilerkit.isolation import processes
from profilerkit_audits import Plan, Store, audit
from profilerkit_audits.cases import list_cases

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not processes.LINUX, reason="audits run their models in processes of their own"),
]

COUNT = 4
#: Of a row: spec, key, status, attempt and MACs.
Facts: TypeAlias = "tuple[str, str, str, int, float | None]"
RUN = "import sys; from profilerkit import audit; audit(sys.argv[1])"
PLAN = 'metrics = ["macs", "total_params"]\ntimeout = 60\n[[models]]\nspec = "nets.py:*"\nexclude = ["*:net"]\n'
#: Every outcome is among the rows: a model that crashes is measured once, too.
MORE = "\ndef crash():\n    os._exit(7)\n"


def facts(folder: Path) -> list[Facts]:
    """Return what a killed and an undisturbed audit must have in common, of every row that was ever written."""
    with Store.open(folder / "zoo.db", create=False) as store:
        rows = list(store.rows(all_attempts=True))
        assert all((row.values and row.checksum) or row.status.value == "failed" for row in rows), "whole rows"
        assert all(store.report(row) is not None for row in rows if row.checksum)
    return sorted((row.spec, row.key, row.status.value, row.attempt, row["macs"]) for row in rows)


def zoo(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    write_nets(folder, COUNT, MORE)
    (folder / "zoo.toml").write_text(PLAN)
    return folder / "zoo.toml"


def list_undisturbed(plan: Path) -> list[Facts]:
    """Return the rows of an undisturbed audit: their keys from the plan, their counts by hand."""
    macs: dict[str, float] = {f"nets.py:net_{number:02d}": MACS[number] for number in range(1, COUNT + 1)}
    keys = {case.spec: case.compute_key("") for case in list_cases(Plan.load(plan))}
    statuses = {spec: "complete" if spec in macs else "failed" for spec in keys}
    return sorted((spec, key, statuses[spec], 1, macs.get(spec)) for spec, key in keys.items())


def left_running(plan: Path) -> Iterator[int]:
    """Yield the processes of an audit that are still there: its models and those that watch over them."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == plan.parent and int(entry.name) != os.getpid():
                    yield int(entry.name)
            except OSError:
                continue


def kill_audit(plan: Path, moment: Callable[[], bool]) -> None:
    """Run an audit, and kill it without a warning at a moment, if it has not ended before."""
    command = [sys.executable, "-c", RUN, str(plan)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=plan.parent)
    while process.poll() is None and not moment():
        time.sleep(0.001)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(left_running(plan)):
        assert time.monotonic() < deadline, "its models outlive it"
        time.sleep(0.02)


def is_past(end: float) -> bool:
    """Return whether a moment of the monotonic clock has passed."""
    return time.monotonic() >= end


def has_rows(plan: Path, count: int) -> bool:
    """Return whether the store has so many rows; 0 for its file alone."""
    file = plan.with_suffix(".db")
    if not file.exists() or not count:
        return file.exists()
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return bool(connection.execute("SELECT count(*) FROM rows").fetchone()[0] >= count)
    except sqlite3.OperationalError:  # it is being made
        return False
    finally:
        connection.close()


def require_rows_of_an_undisturbed_one(plan: Path, expected: list[Facts]) -> None:
    with closing(sqlite3.connect(plan.with_suffix(".db"))) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    run_python(RUN, plan, cwd=plan.parent)
    assert facts(plan.parent) == expected
    with Store.open(plan.with_suffix(".db"), create=False) as store:
        last = store.runs()[-1]
        assert last.outcome == "done"
        assert sorted(row.key for row in store.rows(run=last.run)) == sorted(row[1] for row in expected)


@pytest.mark.slow
def test_a_killed_audit_goes_on_where_it_was(tmp_path: Path) -> None:
    """Killed while the store is made, after the first row, and some time after a later one."""
    plan = zoo(tmp_path)
    delay = time.monotonic() + 1e9

    def later() -> bool:
        nonlocal delay
        if has_rows(plan, 3):
            delay = min(delay, time.monotonic() + 0.05)
        return time.monotonic() >= delay

    for moment in (lambda: has_rows(plan, 0), lambda: has_rows(plan, 1), later):
        kill_audit(plan, moment)
    require_rows_of_an_undisturbed_one(plan, list_undisturbed(plan))


@pytest.mark.slow
def test_fifty_random_moments(tmp_path: Path) -> None:
    """Killed again and again at random moments, so that stores that were cut off are gone on with."""
    started = time.monotonic()
    plan = zoo(tmp_path / "whole")
    run_python(RUN, plan, cwd=plan.parent)
    assert facts(plan.parent) == list_undisturbed(plan)
    seconds = time.monotonic() - started
    moments = random.Random(16)
    for kills in range(0, 50, 5):
        plan = zoo(tmp_path / f"round_{kills}")
        for _ in range(5):
            end = time.monotonic() + moments.uniform(0.2, 1.1) * seconds
            kill_audit(plan, functools.partial(is_past, end))
        require_rows_of_an_undisturbed_one(plan, list_undisturbed(plan))


def test_an_interrupted_audit_says_so_and_leaves_nothing_running(tmp_path: Path) -> None:
    plan = zoo(tmp_path)
    (tmp_path / "zoo.toml").write_text(PLAN.replace("nets.py:*", "nets.py:hang"))
    write_nets(tmp_path, 1, "\ndef hang():\n    while True:\n        pass\n")
    process = subprocess.Popen([sys.executable, "-c", RUN, str(plan)], stderr=subprocess.PIPE, cwd=tmp_path, text=True)
    deadline = time.monotonic() + 30
    while len(list(left_running(plan))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert list(left_running(plan)) == []
    with Store.open(tmp_path / "zoo.db", create=False) as store:
        assert [run.outcome for run in store.runs()] == ["interrupted"]
        assert list(store.rows()) == []


def test_a_second_audit_into_the_same_store(tmp_path: Path) -> None:
    """Of another plan: what both have in common is measured once, and each run consists of its models."""
    zoo(tmp_path)
    first = audit(tmp_path / "zoo.toml")
    content = {"metrics": ["macs", "total_params"], "models": [{"specs": ["nets.py:net_01", "nets.py:net"]}]}
    (tmp_path / "other").mkdir()

    second = audit(Plan.of(content, tmp_path, "other"), tmp_path / "zoo.db")
    assert (first.measured, second.measured, second.reused) == (COUNT + 1, 1, 1)
    assert sorted(row.spec for row in second.rows()) == ["nets.py:net", "nets.py:net_01"]
    assert len(list(first.rows())) == COUNT + 1


@pytest.mark.slow
def test_two_audits_at_the_same_time(tmp_path: Path) -> None:
    """One of them is refused, and says which process is writing; the other one measures all models once."""
    plan = zoo(tmp_path)
    with (tmp_path / "nets.py").open("a") as file:
        file.write("\n_net = net\ndef net(width):\n    import time\n    time.sleep(2)\n    return _net(width)\n")
    expected = list_undisturbed(plan)
    command = [sys.executable, "-c", RUN, str(plan)]
    first, second = (subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, text=True) for _ in range(2))
    errors = {process.pid: process.communicate(timeout=120)[1] for process in (first, second)}
    done, refused = sorted((first, second), key=lambda process: process.returncode)
    assert (done.returncode, refused.returncode) == (0, 1), errors
    assert f"another audit is writing to {plan.with_suffix('.db')} (process {done.pid})" in errors[refused.pid]
    require_rows_of_an_undisturbed_one(plan, expected)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 224 KiB: a store fits onto it, and a few rows."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=224k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or run_program(mounting, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield folder
    finally:
        run_program(["umount", str(folder)])


@pytest.mark.slow
def test_an_audit_on_a_full_disk_goes_on_when_there_is_room(small_disk: Path) -> None:
    plan = zoo(small_disk)
    expected = list_undisturbed(plan)
    with Store.open(small_disk / "zoo.db"):
        left = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        (small_disk / "filling").write_bytes(bytes(left - 40 * 1024))
    with pytest.raises(StoreError, match=r"full; make room and run the same command again"):
        audit(plan)
    with Store.open(small_disk / "zoo.db", create=False) as store:
        assert len(list(store.rows())) < len(expected)
    (small_disk / "filling").unlink()
    require_rows_of_an_undisturbed_one(plan, expected)
