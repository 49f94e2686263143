"""Audits on Ray: several nodes on this machine, by Ray's own test utilities, and one of them killed half-way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audited import MACS, plan, write_nets

from profilerkit.audits import End, Row, RowStatus, audit
from profilerkit.audits.running import Watch

ray: Any = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

MORE = """
import time

def slow():
    time.sleep(6)
    return net(9)

def crash():
    os._exit(7)

def hungry():
    kept = [bytearray(b"x") * 2**20 for _ in range(100_000)]
    return net(len(kept))

def hang():
    while True:
        pass
"""


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def by_name(rows: Any) -> dict[str, Row]:
    return {row.spec.rpartition(":")[2]: row for row in rows}


def test_models_that_misbehave_are_rows_and_nothing_is_tried_again(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=2)
    write_nets(tmp_path, 3, MORE)
    names = ["net_01", "net_02", "net_03", "crash", "hungry", "hang"]
    limits: dict[str, Any] = {"timeout": 15, "memory": "256 MiB"}
    zoo = plan(tmp_path, {"specs": [f"nets.py:{name}" for name in names]}, **limits)
    finished = audit(zoo, engine="ray", address=cluster.address)
    rows = by_name(finished.rows())
    assert len(list(finished.rows())) == len(names)
    assert {name: rows[name].end for name in names[3:]} == {
        "crash": End.EXIT,
        "hungry": End.MEMORY,
        "hang": End.TIMEOUT,
    }
    assert [rows[name]["macs"] for name in names[:3]] == [MACS[1], MACS[2], MACS[3]]
    assert all(row.attempt == 1 and row.machine for row in rows.values())
    again = audit(zoo, engine="ray", address=cluster.address)
    assert (again.measured, again.reused) == (0, len(names))


def test_a_case_whose_node_is_lost_is_tried_again(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=2)
    write_nets(tmp_path, 2, MORE)

    class Killer(Watch):
        """Takes the second node away once everything is under way, and brings another one."""

        def __init__(self) -> None:
            self.starts: list[str] = []

        def started(self, case: Any) -> None:
            self.starts.append(case.spec)
            if len(self.starts) == 3:
                time.sleep(4)
                cluster.remove_node(node, allow_graceful=False)
                cluster.add_node(num_cpus=2)

    killer = Killer()
    specs = ["nets.py:slow", "nets.py:net_01", "nets.py:net_02"]
    models: list[dict[str, Any]] = [{"spec": spec} for spec in specs] + [
        {"spec": "nets.py:slow", "metrics": ["total_params"]}
    ]
    finished = audit(plan(tmp_path, *models, timeout=60), engine="ray", address=cluster.address, watch=killer)
    rows = list(finished.rows())
    assert len(rows) == 4
    assert {row.status for row in rows} == {RowStatus.COMPLETE}, [row.reason for row in rows]
    assert len(killer.starts) > 4, "a case was started again"


def test_times_are_measured_on_a_node_alone(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=2)
    write_nets(tmp_path, 2)
    settings: dict[str, Any] = {"metrics": ["macs", "execution_time"], "num_iters": 3, "warmup": 1, "repeats": 0}
    finished = audit(plan(tmp_path, {"spec": "nets.py:net_*"}, **settings), engine="ray", address=cluster.address)
    rows = list(finished.rows())
    assert [row.status for row in rows] == [RowStatus.COMPLETE] * 2
    assert all((row["execution_time"] or 0) > 0 for row in rows)
