"""An audit of models that misbehave: each is one row, with the right end and what was counted before."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

import planted
import pytest
from audited import plan

from profilerkit.isolation import processes
from profilerkit_audits import FailureCode, Row, RowStatus, audit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not processes.LINUX, reason="only Linux has all the limits"),
]

MODELS = Path(planted.__file__)
LIMITS: dict[str, Any] = {"timeout": 4, "memory": "256 MiB", "max_threads": 200}
#: The end of each model under `LIMITS`, and a pattern of its reason.
EXPECTED = {
    "endless_loop": (FailureCode.TIMEOUT, r"its time limit of 4 s while computing execution_time, .*in for_ever"),
    "segfault": (FailureCode.SIGNAL, r"SIGSEGV \(segmentation fault\) while computing execution_time"),
    "aborts": (FailureCode.SIGNAL, r"SIGABRT \(abort\)"),
    "leaves": (FailureCode.EXIT, r"left by itself with exit code 7 while computing execution_time"),
    "leaves_with_code_0": (FailureCode.EXIT, r"left by itself with exit code 0"),
    "allocates_100_gb": (FailureCode.MEMORY, r"its memory limit of 256 MiB"),
    "allocates_100_gb_at_once": (FailureCode.MEMORY, r"(?i)unable to allocate"),
    "needs_100_gb_to_be_built": (FailureCode.MEMORY, r"(?i)unable to allocate"),
    "bomb_of_threads": (FailureCode.THREADS, r"its limit of 200 threads, having [\d,]+"),
    "left_behind_and_hangs": (FailureCode.TIMEOUT, r"its time limit of 4 s"),
    "closes_descriptors": (FailureCode.TIMEOUT, r"its time limit of 4 s"),
    "kills_its_watcher": (FailureCode.LOST, r"the process that watches over the model was killed"),
    "raises": (FailureCode.MODEL, r"KeyError: 'half-way'"),
    "cannot_be_built": (FailureCode.MODEL, r"no such thing"),
    "endless_trace": (FailureCode.TIMEOUT, r"its time limit of 4 s while computing macs"),
}
#: Those that have their parameters alone by the time they end, and those that have nothing.
PARAMS_ALONE, NOTHING = {"endless_trace"}, {"cannot_be_built", "needs_100_gb_to_be_built"}
#: Those that misbehave, and have every value all the same.
TRAPPED = ("flood_on_stdout", "left_behind", "comes_back_twice")
FINE = ("fine", "flood_on_stdout", "left_behind", "deletes_its_file", "comes_back_twice", "prints")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    folder = tmp_path_factory.mktemp("planted")
    shutil.copy(MODELS, folder / "planted.py")
    # A copy of its own for the model that deletes its file: the others need theirs.
    shutil.copy(MODELS, folder / "vanishing.py")
    specs = [f"planted.py:{name}" for name in (*EXPECTED, *FINE) if name != "deletes_its_file"]
    patch = pytest.MonkeyPatch()
    patch.setenv("PLANTED_PIDS", str(folder / "pids"))
    patch.setenv("PLANTED_MIB", "128")
    (folder / "pids").touch()
    metrics = ["total_params", "macs", "execution_time"]
    models: list[dict[str, Any]] = [{"specs": [*specs, "vanishing.py:deletes_its_file"]}]
    whole = plan(folder, *models, metrics=metrics, num_iters=3, warmup=1, repeats=0, **LIMITS)
    started = time.monotonic()
    finished = audit(whole)
    assert time.monotonic() - started < 120
    patch.undo()
    audited = list(finished.rows())
    assert len(audited) == len(specs) + 1, "one row each"
    return {row.spec.rpartition(":")[2]: row for row in audited}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_planted_model_is_a_row_with_its_reason_and_what_was_counted(name: str, rows: dict[str, Row]) -> None:
    row = rows[name]
    failure, reason = EXPECTED[name]
    assert (row.status, row.failure) == (RowStatus.FAILED, failure), row.reason
    assert re.search(reason, row.reason), row.reason
    assert row["execution_time"] is None
    params = None if name in NOTHING else planted.PARAMS
    assert row["total_params"] == params
    assert row["macs"] == (None if name in PARAMS_ALONE | NOTHING else planted.MACS)


@pytest.mark.parametrize("name", FINE)
def test_a_model_that_comes_to_its_end_is_complete(name: str, rows: dict[str, Row]) -> None:
    row = rows[name]
    trapped = name in TRAPPED
    assert row.failure is None
    assert row.status is (RowStatus.PARTIAL if trapped else RowStatus.COMPLETE)
    assert row.reason == ("Trap (1 call) (macs partial)" if trapped else ""), "no formula counts the trap"
    assert (row["total_params"], row["macs"]) == (planted.PARAMS, planted.MACS)
    assert (row["execution_time"] or 0) > 0


@pytest.mark.parametrize("name", ["endless_loop", "endless_trace", "left_behind_and_hangs"])
def test_time_limits_hold_to_a_second(name: str, rows: dict[str, Row]) -> None:
    assert 4.0 <= rows[name].seconds < 5.0


def test_memory_limits_hold_to_a_tenth_and_half_a_gibibyte(rows: dict[str, Row]) -> None:
    peak = rows["allocates_100_gb"].peak_bytes
    assert peak is not None
    assert 256 * 2**20 <= peak < 1.1 * 256 * 2**20 + 2**29
