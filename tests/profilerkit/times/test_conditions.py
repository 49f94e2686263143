"""What is recorded of a machine, and when it is called busy."""

import os
import time
from dataclasses import replace

import pytest

from profilerkit import Measurement
from profilerkit.testing import FakeClock
from profilerkit.times import conditions
from profilerkit.times.conditions import Conditions, MachineWatch, process_name
from profilerkit.times.sampling import Sampling, measure_interleaved

QUIET = Conditions(wall_seconds=2.0, cpu_seconds=2.0, involuntary_switches=8, load_before=2.4, load_after=3.0, cores=2)


@pytest.fixture(autouse=True)
def machines_may_be_busy(no_machine_is_busy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "MOST_LOAD_OF_A_CORE", 1.25)
    monkeypatch.setattr(conditions, "FEWEST_SWITCHES", 5)


def test_a_quiet_machine_is_not_busy() -> None:
    assert QUIET.busy == ""
    assert Measurement((1.0,), conditions=QUIET).warning is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"load_before": 5.2}, "busy machine: a load of 5.2 on 2 cores"),
        ({"involuntary_switches": 41}, "busy machine: interrupted 41 times in 2 s"),
        ({"involuntary_switches": 3737, "wall_seconds": 112.4}, "busy machine: interrupted 3737 times in 112 s"),
        (
            {"cpu_seconds": 0.3, "load_before": 3.0},  # 8 in 0.3 s are 27 in a second
            "busy machine: a load of 3.0 on 2 cores; interrupted 8 times in 2 s",
        ),
        ({"cpu_seconds": 0.01}, "busy machine: interrupted 8 times in 2 s"),
        ({"cpu_seconds": 0.01, "involuntary_switches": 4}, ""),  # it waits for a device, or sleeps
        ({"load_before": None, "involuntary_switches": None, "cores": None}, ""),
    ],
)
def test_signs_of_a_busy_machine(change: dict[str, float], text: str) -> None:
    busy = replace(QUIET, **change)  # type: ignore[arg-type]
    assert busy.busy == text
    assert Measurement((1.0,), conditions=busy).warning == (text or None)


def test_noise_and_a_busy_machine_are_both_said() -> None:
    noisy = Measurement((1.0, 3.0, 2.0, 2.0, 3.0, 1.0), precision=0.02, conditions=replace(QUIET, load_before=9.0))
    assert noisy.warnings == (
        "noisy: the median is precise to ±50.0%, ±2.0% was requested",
        "busy machine: a load of 9.0 on 2 cores",
    )
    assert noisy.warning == "; ".join(noisy.warnings)


def test_a_watch_adds_up_what_happens_while_it_is_entered() -> None:
    watch, inside = MachineWatch(), 0.0
    for _ in range(2):
        with watch:
            start, began = time.process_time(), time.perf_counter()
            while time.process_time() < start + 0.02:
                pass
            inside += time.perf_counter() - began
        time.sleep(0.05)
    found = watch.conditions()
    assert found.cpu_seconds >= 0.04
    # Other threads of the process may have taken processor time too, so 0.04 s of that may be less by the clock.
    assert inside <= found.wall_seconds < inside + 0.05, "what is between two blocks is not part of it"
    passed = time.process_time()
    assert found.cpu_seconds < passed, "what came before is not part of it"
    assert found.process == process_name()
    assert found.cores == os.cpu_count()


def test_what_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    def fail() -> tuple[float, float, float]:
        raise OSError("no load here")

    monkeypatch.setattr(os, "getloadavg", fail)
    monkeypatch.setattr(conditions, "resource", None)
    monkeypatch.setattr(conditions, "_GOVERNOR", conditions._GOVERNOR / "missing")
    with MachineWatch() as watch:
        pass
    found = watch.conditions()
    assert (found.load_before, found.load_after, found.involuntary_switches, found.governor) == (None,) * 4
    assert found.busy == ""


def test_the_governor_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path)) / "scaling_governor"
    file.write_text("powersave\n")
    monkeypatch.setattr(conditions, "_GOVERNOR", file)
    assert MachineWatch().conditions().governor == "powersave"


def test_models_in_turn_have_the_machine_in_common() -> None:
    clock = FakeClock()
    calls = [clock.make_call([0.001]), clock.make_call([0.002])]
    first, second = measure_interleaved(calls, Sampling(num_iters=3, warmup=0, clock=clock))
    assert first.conditions is not None
    assert first.conditions is second.conditions
    assert first.conditions.process == process_name()
    assert first.map(lambda seconds: 1 / seconds).conditions is first.conditions
