"""What torch's profiler logs of its own does not reach the user; all else on standard error does."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity

from profilerkit import ProfilerBusyError
from profilerkit.process.restoring import restored
from profilerkit_torch.compat.profiler import is_profiler_enabled
from profilerkit_torch.running.profiler_sessions import _without_log, run_profiler

LOG = """USDT:2026-11-26 12:59:40 10912:10912 SyncActivityProfilerHandler.cpp:39] profiler_start
ERROR:2026-11-26 12:59:02 10610:10610 DeviceProperties.cpp:56] gpuGetDeviceCount failed with code 35
"""


@pytest.mark.parametrize(
    ("keeps_errors", "passed_on"),
    [(False, "before\nUSDT: of the user\nafter"), (True, f"before\n{LOG.splitlines()[1]}\nUSDT: of the user\nafter")],
)
def test_lines_of_the_log_are_left_out(capfd: pytest.CaptureFixture[str], keeps_errors: bool, passed_on: str) -> None:
    with _without_log(keeps_errors=keeps_errors):
        os.write(2, f"before\n{LOG}USDT: of the user\nafter".encode())
    assert capfd.readouterr().err == passed_on


def test_the_stream_comes_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), _without_log(keeps_errors=False):
        os.write(2, b"in between\n")
        raise KeyboardInterrupt
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "in between\nlater\n"


def test_without_standard_error_nothing_fails(capfd: pytest.CaptureFixture[str]) -> None:
    saved = os.dup(2)
    os.close(2)
    try:
        with _without_log(keeps_errors=False):
            ran = True
    finally:
        os.dup2(saved, 2)
        os.close(saved)
    assert ran


def test_a_session_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with run_profiler([ProfilerActivity.CPU]) as session:
        torch.ones(3) + 1
        os.write(2, b"of the model\n")
    assert any(event.name == "aten::add" for event in session.events() or ())
    assert capfd.readouterr().err == "of the model\n"


@pytest.mark.parametrize("name", ["_prepare_profiler", "_run_on_profiler_start", "_enable_profiler"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_session_that_an_error_keeps_from_its_beginning_is_ended(
    name: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(name, moment, monkeypatch)
    with pytest.raises(KeyboardInterrupt), run_profiler([ProfilerActivity.CPU]):
        pytest.fail("the beginning is interrupted")
    assert_no_session_runs(monkeypatch)


@pytest.mark.parametrize("name", ["_disable_profiler", "_run_on_profiler_stop"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_session_that_an_error_keeps_from_its_end_is_ended(
    name: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt), run_profiler([ProfilerActivity.CPU]):
        interrupt_at(name, moment, monkeypatch)
    assert_no_session_runs(monkeypatch)


def interrupt_at(name: str, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the first call of a function of torch's raise, before it does anything or when it has done all."""
    function = getattr(torch.autograd.profiler, name)
    interrupts = [KeyboardInterrupt]

    def call(*args: Any, **kwargs: Any) -> Any:
        if moment == "before" and interrupts:
            raise interrupts.pop()
        answer = function(*args, **kwargs)
        if interrupts:
            raise interrupts.pop()
        return answer

    monkeypatch.setattr(torch.autograd.profiler, name, call)


def assert_no_session_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not is_profiler_enabled()
    with run_profiler([ProfilerActivity.CPU]) as session:
        torch.ones(3) + 1
    assert any(event.name == "aten::add" for event in session.events() or ())


def test_the_users_session_goes_on() -> None:
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], acc_events=True) as own:
        with pytest.raises(ProfilerBusyError, match="one per process"), run_profiler([ProfilerActivity.CPU]):
            pytest.fail("torch has one profiler")
        torch.ones(3) + 1
    assert any(event.name == "aten::add" for event in own.events() or ())


def test_the_stream_comes_back_where_the_end_is_not_reached(capfd: pytest.CaptureFixture[str]) -> None:
    with restored():
        _without_log(keeps_errors=False).__enter__()
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"
