"""Audits on Ray: several nodes on this machine, by Ray's own test utilities, and nodes that are killed half-way."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from audited import MACS, plan, write_nets
from time_limits import run_program

from profilerkit import NotOfferedError
from profilerkit.isolation import processes
from profilerkit_audits import FailureCode, Row, RowStatus, Store, audit
from profilerkit_audits.engine import EngineOptions
from profilerkit_audits.running import Watch

ray: Any = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

#: Every model notes when it is built, so that one that is built twice shows.
MORE = """
import sys
import time
from pathlib import Path

def noted(name):
    with open("built", "a") as file:
        file.write(f"{name} {os.getpid()}\\n")

def wait():
    while not Path("gate").exists():
        time.sleep(0.02)

def crash():
    noted("crash")
    os._exit(7)

def hungry():
    noted("hungry")
    kept = [bytearray(b"x") * 2**20 for _ in range(100_000)]
    return net(len(kept))

def hang():
    noted("hang")
    while True:
        pass
""" + "".join(
    f"\ndef gated_{number}():\n    noted('gated_{number}')\n    wait()\n    return net({number})\n"
    for number in range(1, 4)
)
#: Ray sees after a second that a node is lost, and not after a quarter of a minute.
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_failure_threshold": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that runs nothing, and a node of two CPUs."""
    from ray.cluster_utils import Cluster

    variables = dict(os.environ)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": QUICK})
    cluster.add_node(num_cpus=2)
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(variables)


@pytest.fixture
def third(cluster: Any) -> Iterator[Callable[..., Any]]:
    """Add nodes for one test; those that are there still are removed after it."""
    nodes: list[Any] = []

    def add(**options: Any) -> Any:
        nodes.append(cluster.add_node(**options))
        return nodes[-1]

    yield add
    for node in nodes:
        if node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)


def by_name(rows: Any) -> dict[str, Row]:
    return {row.spec.rpartition(":")[2]: row for row in rows}


def built(folder: Path) -> list[tuple[str, int]]:
    """Return which models were built, and in which process, each time."""
    file = folder / "built"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [(name, int(process)) for name, _, process in (line.partition(" ") for line in lines)]


def once(condition: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Act in a thread once a condition holds; after five minutes the test fails of what is missing then."""

    def watch() -> None:
        deadline = time.monotonic() + 300
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def require_ended(processes: list[int]) -> None:
    deadline = time.monotonic() + 10
    while left := [process for process in processes if Path(f"/proc/{process}").exists()]:
        assert time.monotonic() < deadline, f"the models {left} outlive their node"
        time.sleep(0.05)


def lose_node(cluster: Any, node: Any) -> None:
    """Take a node away with all of its processes: on a busy machine they would live on and hand over results."""
    workers = [processes.pidfd(process) for process in below(node.all_processes["raylet"][0].process.pid)]
    cluster.remove_node(node, allow_graceful=False)
    for descriptor in workers:
        if descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)


def below(process: int) -> Iterator[int]:
    """Yield the processes that one has started, and those that they have."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            child, parent = int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == process:
                yield child
                yield from below(child)


def test_models_that_misbehave_are_rows_and_nothing_is_tried_again(cluster: Any, tmp_path: Path) -> None:
    write_nets(tmp_path, 3, MORE)
    names = ["net_01", "net_02", "net_03", "crash", "hungry"]
    models: list[dict[str, Any]] = [{"specs": [f"nets.py:{name}" for name in names]}]
    models += [{"spec": "nets.py:hang", "timeout": 10}]
    zoo = plan(tmp_path, *models, memory="256 MiB")
    finished = audit(zoo, engine="ray", address=cluster.address)
    rows = by_name(finished.rows())
    assert len(list(finished.rows())) == 6
    ends = {name: rows[name].failure for name in ("crash", "hungry", "hang")}
    assert ends == {"crash": FailureCode.EXIT, "hungry": FailureCode.MEMORY, "hang": FailureCode.TIMEOUT}
    assert sorted(name for name, _ in built(tmp_path)) == ["crash", "hang", "hungry"], "each of them once"
    assert [rows[name]["macs"] for name in names[:3]] == [MACS[1], MACS[2], MACS[3]]
    with Store.open(tmp_path / "audit.db", create=False) as store:
        facts = store.machines()
    assert all(row.attempt == 1 and facts[row.machine]["cores"] == str(os.cpu_count()) for row in rows.values())
    again = audit(zoo, engine="ray", address=cluster.address)
    assert (again.measured, again.reused) == (0, 6)


def test_rows_come_when_they_are_there_and_this_process_is_as_before(cluster: Any, tmp_path: Path) -> None:
    """The slow model waits for the row of the fast one: if that came at the end, it would wait until its limit."""
    write_nets(tmp_path, 2, MORE)

    class Opener(Watch):
        def end(self, case: Any, row: Row) -> None:
            (tmp_path / "gate").touch()

    def state() -> list[Any]:
        handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        return [handlers, dict(os.environ), sys.excepthook, sys.stdout, sys.stderr, faulthandler.is_enabled()]

    before = state()
    specs = ["nets.py:gated_1", "nets.py:net_01"]
    finished = audit(
        plan(tmp_path, {"specs": specs}, timeout=30), engine="ray", address=cluster.address, watch=Opener()
    )
    rows = list(finished.rows())
    assert state() == before
    assert [(row.spec, row.status) for row in rows] == [(spec, RowStatus.COMPLETE) for spec in reversed(specs)]


def test_cases_whose_node_is_lost_are_tried_again(
    cluster: Any, third: Callable[..., Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Three models fill two nodes; one node is killed while all of them are being built."""
    node = third(num_cpus=1)
    write_nets(tmp_path, 0, MORE)

    def lose() -> None:
        lose_node(cluster, node)
        (tmp_path / "gate").touch()

    thread = once(lambda: len(built(tmp_path)) >= 3, lose)
    finished = audit(
        plan(tmp_path, {"specs": [f"nets.py:gated_{number}" for number in range(1, 4)]}),
        engine="ray",
        address=cluster.address,
    )
    thread.join()
    rows = by_name(finished.rows())
    assert {name: (row.status, row["macs"]) for name, row in rows.items()} == {
        f"gated_{number}": (RowStatus.COMPLETE, MACS[number]) for number in range(1, 4)
    }
    assert len(list(finished.rows())) == 3
    names = [name for name, _ in built(tmp_path)]
    assert (len(names), len(set(names[:3]))) == (4, 3), "that of the lost node was built again"
    require_ended([process for _, process in built(tmp_path)])
    assert capfd.readouterr().out == "", "what Ray says about nodes is no result"


def test_a_time_that_waits_for_a_node_that_is_lost_is_measured_on_a_smaller_one(
    cluster: Any, third: Callable[..., Any], tmp_path: Path
) -> None:
    node = third(num_cpus=3)
    write_nets(tmp_path, 0, MORE)

    def lose() -> None:
        lose_node(cluster, node)
        (tmp_path / "gate").touch()

    thread = once(lambda: len(built(tmp_path)) >= 1, lose)
    settings: dict[str, Any] = {"metrics": ["macs", "execution_time"], "num_iters": 3, "warmup": 1, "repeats": 0}
    specs = ["nets.py:gated_1", "nets.py:gated_2"]
    finished = audit(plan(tmp_path, {"specs": specs}, **settings), engine="ray", address=cluster.address)
    thread.join()
    rows = list(finished.rows())
    assert [row.status for row in rows] == [RowStatus.COMPLETE] * 2, [row.reason for row in rows]
    assert all((row["execution_time"] or 0) > 0 and row.conditions["beside"] == 0 for row in rows)
    assert len(built(tmp_path)) == 3, "one of them began on the node that was lost"


def test_cases_that_wait_for_a_gpu_that_is_lost_are_rows(
    cluster: Any, third: Callable[..., Any], tmp_path: Path
) -> None:
    """The only node with a GPU is killed while the first case is built on it, and the others wait for it."""
    node = third(num_cpus=2, num_gpus=1)
    write_nets(tmp_path, 0, MORE)
    thread = once(lambda: len(built(tmp_path)) >= 1, lambda: lose_node(cluster, node))
    models = {"specs": [f"nets.py:gated_{number}" for number in range(1, 4)], "device": "cuda"}
    finished = audit(plan(tmp_path, models), engine="ray", address=cluster.address)
    thread.join()
    rows = list(finished.rows())
    assert len(rows) == 3
    assert {(row.status, row.failure) for row in rows} == {(RowStatus.FAILED, FailureCode.ENGINE)}
    assert all("no node of the cluster has a GPU" in row.reason for row in rows)


def test_a_task_that_ray_ends_for_lack_of_memory_is_a_row_and_not_tried_again(
    third: Callable[..., Any], cluster: Any, tmp_path: Path
) -> None:
    """Ray's own watch over a node's memory, with a threshold that is always exceeded; by default it tries for ever."""
    third(num_cpus=3, env_vars={"RAY_memory_usage_threshold": "0.001", "RAY_memory_monitor_refresh_ms": "100"})
    write_nets(tmp_path, 0, MORE)
    metrics = ["total_params", "execution_time"]
    starts: list[str] = []

    class Count(Watch):
        def start(self, case: Any) -> None:
            starts.append(case.spec)

    finished = audit(
        plan(tmp_path, {"spec": "nets.py:gated_1", "metrics": metrics}),
        engine="ray",
        address=cluster.address,
        watch=Count(),
    )
    (row,) = finished.rows()
    assert (row.status, row.failure, starts) == (RowStatus.FAILED, FailureCode.MEMORY, ["nets.py:gated_1"]), row.reason
    assert row.reason.startswith("the cluster ended it, since its node had no memory left: ")
    assert len(built(tmp_path)) <= 1
    require_ended([process for _, process in built(tmp_path)])


def test_the_command_line_without_an_address(tmp_path: Path) -> None:
    """A cluster of its own, of which nothing is left: neither processes nor files."""
    write_nets(tmp_path, 3, MORE)
    text = 'metrics = ["macs"]\nworkers = 2\n[[models]]\nspecs = ["nets.py:net_*", "nets.py:crash"]\n'
    (tmp_path / "zoo.toml").write_text(text)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="pk") as folder:
        code = "from profilerkit.cli import main; main()"
        command = [sys.executable, "-c", code, "audit", "zoo.toml", "--engine", "ray", "--format", "json"]
        variables = {**os.environ, "TMPDIR": folder}
        printed = run_program(command, cwd=tmp_path, env=variables)
        assert list(Path(folder).iterdir()) == []
        assert of_folder(folder) == []
    rows = {row["spec"]: (row["status"], row["values"]["macs"]["value"]) for row in json.loads(printed.stdout)}
    expected = {f"nets.py:net_0{number}": ("complete", MACS[number]) for number in (1, 2, 3)}
    assert rows == {**expected, "nets.py:crash": ("failed", None)}


def of_folder(folder: str) -> list[str]:
    """Return the command lines of processes that have a folder in them, other than this one."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            lines += [line] if folder in line else []
    return lines


def test_a_port_without_a_listener_is_an_error_at_once() -> None:
    """Ray itself tries to connect for minutes."""
    from profilerkit_audits.ray_connection import Connection

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(
            NotOfferedError, match=f"engine 'ray' cannot connect to a cluster at '{address}': .*refused"
        ):
            Connection(address, 1)


def test_an_address_without_a_cluster_is_an_error(tmp_path: Path) -> None:
    write_nets(tmp_path, 1)
    variables = dict(os.environ)
    with pytest.raises(NotOfferedError, match=r"engine 'ray' cannot connect to a cluster at 'no address': .*ray start"):
        audit(plan(tmp_path, {"spec": "nets.py:net_01"}), engine="ray", address="no address")
    assert dict(os.environ) == variables


@pytest.mark.parametrize(
    ("error", "raised", "tried"), [(ray.exceptions.RayError, ConnectionError, 2), (ValueError, ValueError, 1)]
)
def test_the_connection_is_closed_if_tasks_cannot_be_cancelled(
    error: type[Exception], raised: type[Exception], tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from profilerkit_audits import ray_engine

    connection, fake, submitted = Mock(), Mock(), iter(range(10))
    fake.cluster_resources.return_value = {"CPU": 1}
    fake.remote.return_value.return_value.options.return_value.remote.side_effect = lambda *given: next(submitted)
    fake.wait.side_effect = ConnectionError("the cluster is gone")
    fake.cancel.side_effect = error("it cannot be cancelled")
    monkeypatch.setattr(ray_engine, "ray", fake)
    monkeypatch.setattr(ray_engine, "Connection", lambda *given: connection)
    case: Any = SimpleNamespace(problem="", device="cpu", is_timed=False)
    with pytest.raises(raised):
        list(ray_engine.RayEngine(EngineOptions()).run([case, case]))
    connection.close.assert_called_once_with()
    assert fake.cancel.call_count == tried


def test_a_task_that_cannot_be_taken_back_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node with the only GPU was lost, and the cluster does not answer: the case fails, and the audit goes on."""
    from profilerkit_audits import ray_engine

    fake = Mock()
    fake.cluster_resources.return_value = {"CPU": 1}
    fake.nodes.side_effect = [[{"Alive": True, "Resources": {"CPU": 1, "GPU": 1}}], *[[]] * 9]
    fake.wait.side_effect = lambda references, **options: ([], references)
    fake.cancel.side_effect = ray.exceptions.RayError("it cannot be cancelled")
    monkeypatch.setattr(ray_engine, "ray", fake)
    monkeypatch.setattr(ray_engine, "Connection", lambda *given: Mock())
    monkeypatch.setattr(ray_engine, "without_run", lambda case, machine, code, reason: reason)
    case: Any = SimpleNamespace(problem="", device="cuda", is_timed=False)
    (reason,) = ray_engine.RayEngine(EngineOptions()).run([case])
    assert "no node of the cluster has a GPU" in str(reason)
