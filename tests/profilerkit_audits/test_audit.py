"""Audits on this machine: a row for each model, whatever it does, and nothing twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from audited import MACS, PARAMS, many, plan, write_nets
from time_limits import run_python

from profilerkit import ArgumentError, NotOfferedError, PlanError, Report
from profilerkit.isolation import processes
from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store, audit
from profilerkit_audits.plan import Plan
from profilerkit_audits.running import Audit, Watch

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not processes.LINUX, reason="audits run their models in processes of their own"),
]

BAD = """
def crash():
    os._exit(7)

def hang():
    while True:
        pass

def missing():
    import no_such_package_anywhere

def breaks():
    def act(x):
        raise RuntimeError("half-way")
    return LoadedModel(Sequential(dense(4, 3), Layer("Trap", act)), input_shape=(4,))
"""


def by_spec(rows: Any) -> dict[str, Row]:
    return {row.spec.rpartition(":")[2]: row for row in rows}


@pytest.mark.parametrize("failure", [None, *FailureCode])
def test_a_row_is_reused_unless_the_engine_failed(failure: FailureCode | None, tmp_path: Path) -> None:
    """A lost cluster or a deleted temporary folder says nothing about a model; a crash or a time-out does."""
    zoo = Audit(many(tmp_path, 1), tmp_path / "zoo.db")
    ((key, case),) = zoo.cases.items()
    status = RowStatus.COMPLETE if failure is None else RowStatus.FAILED
    with Store.open(zoo.url) as store:
        run = store.begin_run(Run(), {})
        store.add(Row(case.spec, key, status, failure, "why", run=run.run))
        reused, pending = zoo.split(store)
    of_the_engine = failure in (FailureCode.ENGINE, FailureCode.LOST)
    assert (len(reused), len(pending)) == ((0, 1) if of_the_engine else (1, 0))


@pytest.mark.slow
def test_every_model_is_a_row_and_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    write_nets(tmp_path, 2, BAD)
    names = ["net_01", "net_02", "crash", "hang", "missing", "breaks", "nowhere"]
    zoo = plan(tmp_path, {"specs": [f"nets.py:{name}" for name in names]}, timeout=10)
    finished = audit(zoo)
    rows = by_spec(finished.rows())
    assert (finished.measured, finished.reused, dict(finished.counts)) == (7, 0, {"complete": 2, "failed": 5})
    for number in (1, 2):
        row = rows[f"net_0{number}"]
        assert (row.status, row.failure, row.reason) == (RowStatus.COMPLETE, None, "")
        assert (row["macs"], row["total_params"]) == (MACS[number], PARAMS[number])
    assert {name: rows[name].failure for name in names[2:]} == {
        "crash": FailureCode.EXIT,
        "hang": FailureCode.TIMEOUT,
        "missing": FailureCode.IMPORT,
        "breaks": FailureCode.MODEL,
        "nowhere": FailureCode.MODEL,
    }
    assert "left by itself with exit code 7 while loading the model" in rows["crash"].reason
    assert "its time limit of 10 s while loading the model, in hang" in rows["hang"].reason
    assert 10.0 <= rows["hang"].seconds < 11.0
    assert "No module named 'no_such_package_anywhere'" in rows["missing"].reason
    assert "half-way" in rows["breaks"].reason
    assert rows["breaks"]["total_params"] == 4 * 3 + 3, "what was counted before it broke"
    assert "has no 'nowhere'" in rows["nowhere"].reason
    again = audit(zoo)
    assert (again.measured, again.reused) == (0, 7)
    assert list(again.rows()) == list(finished.rows())
    failed = audit(zoo, rerun="failed")
    assert (failed.measured, failed.reused) == (5, 2)
    assert by_spec(failed.rows())["crash"].attempt == 2


def test_a_row_says_where_and_how_it_was_measured(tmp_path: Path) -> None:
    (row,) = audit(many(tmp_path, 1, metrics=["macs", "execution_time"], num_iters=3, warmup=1, repeats=0)).rows()
    with Store.open(tmp_path / "audit.db") as store:
        report, machine = store.report(row), store.machines()[row.machine]
        (run,) = store.runs()
    assert isinstance(report, Report)
    assert report["macs"] == row["macs"] == MACS[1]
    assert row["execution_time"] == report["execution_time"].median
    assert row.values["execution_time"].samples == 3
    assert {"cpu", "cores", "system"} <= set(machine)
    assert "host" not in machine
    assert row.conditions["beside"] == 0
    assert row.versions["profilerkit-numpy"] == "0.1.0"
    assert (run.outcome, run.facts["cases"], run.facts["engine"]) == ("done", 1, "local")
    assert row.flags == ()


def test_a_changed_model_is_measured_again_and_no_other(tmp_path: Path) -> None:
    zoo = many(tmp_path, 2)
    (tmp_path / "extra.py").write_text("WIDTH = 3\n")
    (tmp_path / "other.py").write_text(
        "from nets import net\nfrom extra import WIDTH\ndef build(): return net(WIDTH)\n"
    )
    more = plan(tmp_path, {"spec": "nets.py:net_*"}, {"spec": "other.py:build"})
    assert audit(zoo).measured == 2
    assert audit(more).measured == 1
    (tmp_path / "extra.py").write_text("WIDTH = 4\n")
    finished = audit(more)
    assert (finished.measured, finished.reused) == (1, 2)
    assert by_spec(finished.rows())["build"]["macs"] == MACS[4]


def test_settings_metrics_and_machines_have_keys_of_their_own(tmp_path: Path) -> None:
    write_nets(tmp_path, 1)
    entry = {"spec": "nets.py:net_01"}
    from profilerkit_audits.cases import list_cases

    def key(machine: str = "m", **more: Any) -> str:
        (case,) = list_cases(plan(tmp_path, {**entry, **more}))
        return case.compute_key(machine)

    assert key() == key() == key(timeout=7) == key(machine="other"), "a count is the same on every machine"
    timed: dict[str, Any] = {"metrics": ["execution_time"]}
    keys = {key(), key(batch_size=2), key(metrics=["macs"]), key(dtype="float64"), key(num_iters=3), key(**timed)}
    assert len(keys | {key(machine="other", **timed), key(trust=True)}) == 8


def test_data_and_evaluation_by_reference(tmp_path: Path) -> None:
    write_nets(tmp_path, 1)
    (tmp_path / "data.py").write_text(
        "import numpy as np\n"
        "from profilerkit import metric\n"
        "def splits():\n    return {'test': [(np.ones((2, 4), np.float32), np.zeros(2))] * 3}\n"
        "@metric('batches_seen', unit='batches')\n"
        "def batches_seen(data_splits):\n    return sum(1 for _ in data_splits['test'])\n"
    )
    entry = {"spec": "nets.py:net_01", "data": "data.py:splits", "evaluation": "data.py:batches_seen"}
    (row,) = audit(plan(tmp_path, entry, metrics=["macs", "batches_seen"])).rows()
    assert (row.reason, row["batches_seen"], row["macs"]) == ("", 3, MACS[1])


def test_progress_is_told(tmp_path: Path) -> None:
    """The next model starts before the row of one that is done is stored: writing to the disk takes time."""

    class Told(Watch):
        def __init__(self) -> None:
            self.events: list[Any] = []

        def begin(self, cases: int, reused: int) -> None:
            self.events.append((cases, reused))

        def start(self, case: Any) -> None:
            self.events.append(f"start {case.spec}")

        def end(self, case: Any, row: Row) -> None:
            self.events.append(f"end {row.spec}")

    told = Told()
    audit(many(tmp_path, 2, workers=1), watch=told)
    assert told.events == [
        (2, 0),
        *("start nets.py:net_01", "start nets.py:net_02"),
        *("end nets.py:net_01", "end nets.py:net_02"),
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError])
def test_what_ends_the_start_of_a_model_loses_no_row_of_another(error: type[BaseException], tmp_path: Path) -> None:
    """The first model is done when the second one starts: Ctrl-C, or nobody who reads what the watch writes."""

    class Ended(Watch):
        def start(self, case: Any) -> None:
            if case.spec == "nets.py:net_02":
                raise error

    zoo = Audit(many(tmp_path, 2, workers=1), tmp_path / "zoo.db", watch=Ended())
    with pytest.raises(error):
        zoo.run()
    with Store.open(zoo.url, create=False) as store:
        assert [row.spec for row in store.rows()] == ["nets.py:net_01"]


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="rerun='some': give 'failed', 'all'"):
        audit(many(tmp_path, 1), rerun="some")
    with pytest.raises(NotOfferedError, match="there is no engine 'lokal'; there are, nearest first: local"):
        audit(many(tmp_path, 1), engine="lokal")
    with pytest.raises(PlanError, match="matches no model"):
        audit(Plan.of({"metrics": ["macs"], "models": [{"spec": "none.py:*"}]}, tmp_path), tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_the_caller_imports_no_framework(tmp_path: Path) -> None:
    """The models are loaded in their processes, and nowhere else."""
    write_nets(tmp_path, 1)
    (tmp_path / "zoo.toml").write_text('metrics = ["macs"]\n[[models]]\nspec = "nets.py:net_01"\n')
    code = (
        "import sys; from profilerkit import audit; audit(sys.argv[1]);"
        "print([name for name in ('torch', 'tensorflow', 'jax', 'keras', 'nets') if name in sys.modules])"
    )
    done = run_python(code, tmp_path / "zoo.toml")
    assert json.loads(done.stdout) == []
