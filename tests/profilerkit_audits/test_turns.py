"""Which model may run, and be timed, while others do."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from audited import plan

from profilerkit_audits.cases import Case, list_cases
from profilerkit_audits.engine import EngineOptions
from profilerkit_audits.local_engine import LocalEngine, Running, State, _Session, may_be_timed, may_start

C, W, T = State.COUNTING, State.WAITING, State.TIMING


@pytest.mark.parametrize(
    ("device", "states", "expected"),
    [
        ("cpu", [(W, "cpu")], True),
        ("cpu", [(W, "cpu"), (W, "cpu")], True),
        ("cpu", [(W, "cpu"), (C, "cpu")], False),
        ("cpu", [(W, "cpu"), (T, "cpu")], False),
        ("cpu", [(W, "cpu"), (T, "cuda:0")], False),
        ("cuda:0", [(W, "cuda:0"), (C, "cpu")], True),
        ("cuda:0", [(W, "cuda:0"), (T, "cuda:0")], False),
        ("cuda:0", [(W, "cuda:0"), (T, "cuda:1")], True),
        ("gpu", [(W, "gpu"), (T, "cuda:0")], False),  # the names of one device
        ("cuda:0", [(W, "cuda:0"), (T, "cuda")], False),
        ("gpu:1", [(W, "gpu:1"), (T, "cuda:1")], False),
        ("cuda:0", [(W, "cuda:0"), (T, "cpu")], False),
    ],
)
def test_who_may_be_timed(device: str, states: list[tuple[State, str]], expected: bool) -> None:
    assert may_be_timed(device, [Running(*state) for state in states]) is expected


def test_nothing_is_started_while_a_cpu_is_timed_or_when_many_wait() -> None:
    def started(*states: tuple[State, str]) -> bool:
        return may_start([Running(*state) for state in states], 2)

    assert started()
    assert started((C, "cpu"), (W, "cpu"))
    assert started((T, "cuda:0"))
    assert not started((T, "cpu"))
    assert not started((C, "cpu"), (C, "cpu"))
    assert not started((W, "cpu"), (W, "cpu"))


def test_a_model_that_is_timed_on_a_gpu_notes_the_models_that_are_counted_beside_it() -> None:
    """One that waits, stopped, takes nothing from others."""
    engine = LocalEngine(EngineOptions())
    states = (State.TIMING, State.COUNTING, State.COUNTING, State.WAITING)
    engine._sessions = [_Session(Case("net.py:build", Path()), mock.Mock(), (), state) for state in states]
    engine._count_beside()
    assert [session.beside for session in engine._sessions] == [2, 2, 2, 0]


@pytest.mark.parametrize("device", ["CPU", "cpu:0", "/CPU:0"])
def test_a_cpu_by_any_of_its_names_is_timed_while_nothing_else_runs(device: str, tmp_path: Path) -> None:
    (case,) = list_cases(plan(tmp_path, {"spec": "a.py:b", "device": device}, metrics=["execution_time"]))
    assert not may_be_timed(case.device, [Running(State.WAITING, case.device), Running(State.COUNTING, "cpu")])
    assert not may_start([Running(State.TIMING, case.device)], workers=2)
