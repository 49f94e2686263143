"""The store in PostgreSQL: a real server, which an unprivileged user runs; skipped where it is not installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from audited import many

from profilerkit import Completeness, profile
from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store, Value, audit
from profilerkit_numpy.layers import Sequential, dense

pytest.importorskip("psycopg")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("initdb") is None or shutil.which("pg_ctl") is None, reason="no PostgreSQL here"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server on a socket in a folder of its own, run by ``nobody`` if this is the superuser, who may not."""
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    become: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    environment = {**os.environ, "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, timeout=120, env=environment, cwd=folder, **become)

    data = str(folder / "data")
    run("initdb", "-D", data, "-U", "audits", "-A", "trust", "-E", "UTF8")
    options = f"-c listen_addresses= -c unix_socket_directories={folder}"
    run("pg_ctl", "-D", data, "-l", str(folder / "log"), "-o", options, "-w", "start")
    try:
        yield f"postgresql://audits@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def test_a_row_and_its_report_come_back(server: str) -> None:
    report = profile(Sequential(dense(4, 8)), input_shape=(4,), metrics=["macs"])
    values = {"macs": Value(2**70 + 1, "MACs"), "flops": Value(None, "", Completeness.FAILED, "NUL \x00")}
    with Store.open(server) as store:
        run = store.begin_run(Run("", "", plan={"a": "\x00"}, machine="m"), {"cpu": "A"}).run
        about: dict[str, Any] = {"values": values, "machine": "m", "run": run}
        added = store.add(Row("a:b", "k", RowStatus.FAILED, FailureCode.SIGNAL, "é\x00", **about), report)
        (read,) = store.rows(run=run)
        assert read == added
        assert (read.values, read.reason) == (values, "é\x00")
        assert store.report(read) == report
    assert "audits@" in store.url


def test_an_audit_resumes_from_it(server: str, tmp_path: Path) -> None:
    plan = many(tmp_path, 2)
    first, second = audit(plan, server), audit(plan, server)
    assert (first.measured, second.measured, second.reused) == (2, 0, 2)
    assert sorted(row.spec for row in second.rows()) == ["nets.py:net_01", "nets.py:net_02"]


def test_several_writers_number_their_attempts(server: str) -> None:
    """Whoever is second gets the next attempt: no row is lost, and none is there twice."""

    def write(number: int) -> None:
        with Store.open(server) as store:
            run = store.begin_run(Run("", "", machine="m"), {}).run
            for _ in range(5):
                store.add(Row("s:t", "shared", RowStatus.COMPLETE, machine="m", run=run, values={"a": Value(number)}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    with Store.open(server) as store:
        assert [row.attempt for row in store.rows(key="shared", all_attempts=True)] == list(range(1, 21))
