"""Whatever a model does to its process, there is a report: with what was counted before, and the reason."""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import planted
import pytest

from profilerkit import Completeness, Report, isolated, load
from profilerkit.isolation import processes
from profilerkit.isolation.limits import parse_memory
from profilerkit.isolation.reports import make_unreached_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not processes.LINUX, reason="only Linux has all the limits"),
]

MODELS = Path(planted.__file__)
#: Each test would hang for ever without the limits: this many seconds, and the whole run fails.
OUTER = 60
TIMED = ("execution_time", "throughput")


@pytest.fixture(autouse=True)
def outer_limit() -> Iterator[None]:
    def give_up(number: int, frame: Any) -> None:
        raise AssertionError(f"nothing ended it within {OUTER} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(OUTER)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Expected:
    """What a planted model gets, and what its report says of the times."""

    reason: str
    limits: dict[str, Any] = field(default_factory=lambda: {"timeout": 30})
    completeness: Completeness = Completeness.FAILED


TIME_OVER = r"^the process was ended at its time limit of 2 s while computing execution_time, throughput"
SOON = {"timeout": 2}
SMALL = {"timeout": 30, "memory": "200 MiB"}
CASES = {
    "endless_loop": Expected(rf"{TIME_OVER}, in for_ever \(.*planted\.py:\d+\)$", SOON),
    "deaf_loop": Expected(f"{TIME_OVER}$", SOON),
    "stopped": Expected(f"{TIME_OVER}$", SOON),
    "segfault": Expected(r"^the process was ended by SIGSEGV \(segmentation fault\) while .* in <lambda> \(.*planted"),
    "aborts": Expected(r"^the process was ended by SIGABRT \(abort\) .* ends with: the last thing that it said$"),
    "leaves": Expected(r"^the process left by itself with exit code 7 while computing execution_time, throughput$"),
    "leaves_in_order": Expected(r"^the process left by itself with exit code 3 while computing"),
    "leaves_with_code_0": Expected(r"^the process left by itself with exit code 0 while computing"),
    "allocates_100_gb_at_once": Expected(r"(?i)unable to allocate", SMALL),
    "allocates_100_gb": Expected(
        r"^the process was ended at its memory limit of 200 MiB, holding 2[\d.]+ MiB \(.+ (Mi|Ki)?B over it\), while",
        SMALL,
    ),
    "allocates_in_many_processes": Expected(r"^the process was ended at its memory limit of 200 MiB", SMALL),
    "flood_on_stderr_and_crash": Expected(
        r"exit code 9 while .*ends with: line 19997 of .* \| line 19998 of .* \| line 19999 of what goes wrong$"
    ),
    "bomb_of_threads": Expected(
        r"^the process was ended at its limit of 200 threads, having [\d,]+, while", {"timeout": 30, "max_threads": 200}
    ),
    "bomb_of_processes": Expected(
        r"^the process was ended at its limit of 50 threads, having [\d,]+, while", {"timeout": 30, "max_threads": 50}
    ),
    "closes_descriptors": Expected(rf"{TIME_OVER}, in for_ever", SOON),
    "kills_its_watcher": Expected("^the process that watches over the model was killed while computing"),
    "writes_into_descriptors": Expected(
        r"wrote to the descriptor .* \(it begins with b'what a model prints'\), while computing"
    ),
    "forges_a_report": Expected(r"wrote to the descriptor .* \(what the process sent is not a report"),
    "raises": Expected(r"^KeyError: 'half-way'$|KeyError: 'half-way'"),
}


def profile_planted(name: str, **limits: Any) -> Report:
    arguments = {"num_iters": 3, "warmup": 1, "start_method": "forkserver", "preload": ["numpy"], **limits}
    return isolated(f"{MODELS}:{name}", **arguments)


@pytest.mark.parametrize("name", CASES)
def test_a_planted_model_becomes_a_report_with_what_was_counted_and_the_reason(name: str, tmp_path: Path) -> None:
    expected = CASES[name]
    report = profile_planted(name, **expected.limits)
    assert (report["total_params"], report["macs"]) == (planted.PARAMS, planted.MACS)
    for key in TIMED:
        record = report.status(key)
        assert (record.completeness, record.value) == (expected.completeness, None)
        assert re.search(expected.reason, record.missing[0]), record.missing[0]
    report.save(tmp_path / "report.json")
    assert load(tmp_path / "report.json") == report


def test_what_hangs_in_the_trace_has_its_weights_counted_and_the_rest_was_not_reached() -> None:
    report = profile_planted("endless_trace", timeout=2)
    assert report["total_params"] == planted.PARAMS
    assert report["model_size"] == 4 * planted.PARAMS
    failed, not_reached = report.status("macs"), report.status("execution_time")
    assert failed.completeness is Completeness.FAILED
    assert failed.missing[0].startswith("the process was ended at its time limit of 2 s while computing macs")
    assert not_reached.completeness is Completeness.UNAVAILABLE
    assert not_reached.missing[0].startswith("not reached: the process was ended at its time limit of 2 s")


def test_what_hangs_before_there_is_a_model_has_nothing_but_reasons() -> None:
    report = profile_planted("endless_building", timeout=1)
    assert {"total_params", "macs", "execution_time"} <= set(report)
    assert "first_call_time" not in report, "it is computed on demand alone"
    for key in report:
        assert report.status(key).completeness is Completeness.FAILED
        assert "its time limit of 1 s while loading the model, in for_ever" in report.status(key).missing[0]
    assert report.status("macs").friendly_name == "MACs"
    static = profile_planted("endless_building", timeout=1, static=True)
    assert {"total_params", "macs"} <= set(static) < set(report)
    assert "execution_time" not in static, "nothing is run for it"


def test_a_process_that_said_nothing_has_the_metrics_that_were_asked_for() -> None:
    report = make_unreached_report("net", ["macs", "of_a_function_of_mine"])
    assert list(report) == ["macs", "of_a_function_of_mine"]
    assert report.status("macs").base_unit == "MACs"
    assert report.status("of_a_function_of_mine").value is None


def test_a_flood_on_standard_output_harms_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_MIB", "16")
    report = profile_planted("flood_on_stdout", timeout=50)
    assert report.status("execution_time").completeness is Completeness.COMPLETE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "f" * 16 * 2**20


def read_pids(notes: Path) -> list[int]:
    pids = [int(line) for line in notes.read_text().splitlines()]
    assert len(pids) == 2
    return pids


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize(("start_method", "name"), [("spawn", "left_behind"), ("forkserver", "left_behind_and_hangs")])
def test_nothing_that_a_model_started_outlives_it(
    start_method: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "pids"
    notes.touch()
    monkeypatch.setenv("PLANTED_PIDS", str(notes))
    report = profile_planted(name, timeout=2 if "hangs" in name else 30, start_method=start_method, preload=())
    assert report["macs"] == planted.MACS
    expected = Completeness.FAILED if "hangs" in name else Completeness.COMPLETE
    assert report.status("execution_time").completeness is expected
    for pid in read_pids(notes):
        deadline = time.monotonic() + 5
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not is_alive(pid)


def test_a_model_that_deletes_its_own_file_is_profiled(tmp_path: Path) -> None:
    copy = tmp_path / "planted_copy.py"
    shutil.copy(MODELS, copy)
    report = isolated(f"{copy}:deletes_its_file", timeout=30, num_iters=3, warmup=1)
    assert not copy.exists()
    assert report["macs"] == planted.MACS
    assert all(record.completeness is Completeness.COMPLETE for record in report.statuses.values())


def test_a_copy_that_comes_back_says_nothing_a_second_time() -> None:
    report = profile_planted("comes_back_twice", timeout=30)
    assert report.status("execution_time").completeness is Completeness.COMPLETE
    assert len(report["execution_time"].samples) == 3


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    report = profile_planted("fine", timeout=30, memory="1 GiB", max_threads=100)
    assert all(record.completeness is Completeness.COMPLETE for record in report.statuses.values())
    limit = parse_memory("1 GiB")
    assert f"at most {limit // 2**30} GiB, " in report.environment["isolation"]
    assert "a GPU's memory not limited" in report.environment["isolation"]
