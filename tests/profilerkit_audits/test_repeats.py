"""Flaky times: a case is run again by a rule, and the quietest run counts; and what a dtype of the plan does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from audited import plan, write_nets
from msgspec.structs import replace

from profilerkit import Completeness
from profilerkit.isolation import processes
from profilerkit_audits import Row, RowStatus, Value, audit
from profilerkit_audits.cases import Case
from profilerkit_audits.engine import Outcome, pick_quietest
from profilerkit_audits.running import Watch

TORCH = """
import torch

def linear():
    return torch.nn.Linear(8, 4)
"""


def outcome(median: float, noise: float, status: RowStatus = RowStatus.COMPLETE) -> Outcome:
    value = Value(median, "s", samples=20, low=median, high=median, noise=noise)
    return Outcome(Case("net.py:build", Path()), Row("net.py:build", "", status, values={"execution_time": value}))


def test_the_quietest_run_counts() -> None:
    runs = [outcome(1.0, 0.3), outcome(2.0, 0.1), outcome(3.0, 0.2)]
    assert pick_quietest(runs) is runs[1]


def test_a_run_that_failed_is_not_the_quietest() -> None:
    assert pick_quietest([outcome(1.0, 0.3), outcome(2.0, 0.0, RowStatus.FAILED)]).row["execution_time"] == 1.0


def test_a_run_that_has_no_time_or_one_sample_is_not_the_quietest() -> None:
    """What was not measured has no noise, and one sample has no interval: both seem to be without noise."""
    noisy, partial = outcome(1.0, 0.3), RowStatus.PARTIAL
    time = noisy.row.values["execution_time"]
    for value in (
        Value(None, "s", Completeness.UNAVAILABLE, "no clock"),
        replace(time, samples=1, noise=0.0),
        replace(time, value=0.0, noise=None),
    ):
        other = Outcome(noisy.case, replace(noisy.row, status=partial, values={"execution_time": value}))
        for runs in ([noisy, other], [other, noisy]):
            assert pick_quietest(runs).row.values["execution_time"] == time


@pytest.mark.heavy
@pytest.mark.skipif(not processes.LINUX, reason="audits run their models in processes of their own")
@pytest.mark.parametrize("repeats", [0, 2])
def test_a_noisy_case_is_run_again_as_often_as_the_plan_says(repeats: int, tmp_path: Path) -> None:
    """A precision that no measurement reaches makes every run noisy."""
    write_nets(tmp_path, 1)
    settings: dict[str, Any] = {"max_seconds": 0.05, "warmup": 1, "relative_precision": 1e-9, "repeats": repeats}
    starts: list[str] = []

    class Count(Watch):
        def start(self, case: Case) -> None:
            starts.append(case.spec)

    zoo = plan(tmp_path, {"spec": "nets.py:net_01"}, metrics=["execution_time"], **settings)
    (row,) = audit(zoo, watch=Count()).rows()
    assert row.status is RowStatus.COMPLETE
    assert len(starts) == 1 + repeats, "the first run and those after it"


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.skipif(not processes.LINUX, reason="audits run their models in processes of their own")
def test_a_dtype_converts_weights_and_inputs(tmp_path: Path) -> None:
    """8 x 4 weights and 4 biases of 4 and of 2 bytes; what is no dtype is a row with its reason."""
    pytest.importorskip("torch")
    (tmp_path / "nets.py").write_text(TORCH)
    dtypes = ["float32", "bfloat16", "int7"]
    zoo = plan(
        tmp_path, {"spec": "nets.py:linear", "input_shape": [8], "dtype": dtypes}, metrics=["model_size", "macs"]
    )
    rows = {row.settings["dtype"]: row for row in audit(zoo).rows()}
    assert [rows[name]["model_size"] for name in dtypes[:2]] == [36 * 4, 36 * 2]
    assert [rows[name]["macs"] for name in dtypes[:2]] == [32] * 2
    assert (rows["int7"].status, rows["int7"].reason[:39]) == (
        RowStatus.FAILED,
        "dtype='int7' is no floating-point dtype",
    )
