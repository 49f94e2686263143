"""Sessions of torch's profiler: each is ended, whatever is raised, and none disturbs one of the user's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity

from profilerkit import ProfilerBusyError
from profilerkit_torch.compat.profiler import is_profiler_enabled
from profilerkit_torch.running.profiler_sessions import run_profiler


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
