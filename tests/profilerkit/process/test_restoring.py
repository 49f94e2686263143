"""Changes that are put back whatever is raised meanwhile, and interrupts that wait for it."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import CodeType, FrameType
from typing import Any

import pytest

from profilerkit import Profiler
from profilerkit.process.restoring import for_each, restored, whole_call
from profilerkit.testing import FakeBackend, FakeModel, FakeTensor


class Failing:
    """A step that raises a number of times, and is done then."""

    def __init__(self, times: int, error: BaseException) -> None:
        self.times, self.error, self.calls = times, error, 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls <= self.times:
            raise self.error


def test_a_step_that_was_interrupted_is_done_again_and_the_others_are_done() -> None:
    done: list[str] = []
    failing = Failing(1, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), restored(failing, lambda: done.append("second")):
        pass
    assert (failing.calls, done) == (2, ["second"])


def test_a_step_that_always_raises_keeps_no_other_from_being_done() -> None:
    done: list[str] = []
    with pytest.raises(ZeroDivisionError), restored(Failing(9, ZeroDivisionError()), lambda: done.append("second")):
        pass
    assert done == ["second"]


def test_an_interrupt_of_the_block_is_not_replaced_by_an_error_of_a_step() -> None:
    with pytest.raises(KeyboardInterrupt), restored(Failing(9, ZeroDivisionError())):
        raise KeyboardInterrupt


def test_a_block_whose_end_was_not_reached_is_put_back_by_the_one_around_it() -> None:
    order: list[str] = []
    with restored(lambda: order.append("outer")):
        restored(lambda: order.append("inner")).__enter__()
    assert order == ["inner", "outer"]


class GuardedMode:
    """A mode whose state is held by an object of C++: its end, whenever that comes, puts back what it found."""

    class Guard:
        def __init__(self, state: dict[str, bool]) -> None:
            self.state, self.found = state, state["fast"]
            state["fast"] = False

        def __del__(self) -> None:
            self.state["fast"] = self.found

    def __init__(self, state: dict[str, bool]) -> None:
        self.state = state

    def __enter__(self) -> None:
        self.guard = self.Guard(self.state)
        raise KeyboardInterrupt  # as one that comes here from another thread

    def __exit__(self, *error: object) -> None:
        raise AssertionError("it was not entered")


def test_what_an_interrupted_enter_has_made_ends_before_all_is_put_back() -> None:
    """Else it ends when the error is forgotten, and changes the state again."""
    state = {"fast": True}

    def enter() -> None:
        state["fast"] = False
        with GuardedMode(state):
            pass

    with pytest.raises(KeyboardInterrupt) as raised, restored(lambda: state.update(fast=True)):
        enter()
    with pytest.raises(KeyboardInterrupt) as raised_by_step, restored(enter, lambda: state.update(fast=True)):
        pass
    del raised, raised_by_step
    gc.collect()
    assert state == {"fast": True}


def test_all_arguments_are_worked_off_and_an_interrupt_comes_before_other_errors() -> None:
    done: list[int] = []
    errors = {1: ValueError(), 2: KeyboardInterrupt()}

    def work(number: int) -> None:
        done.append(number)
        if number in errors:
            raise errors[number]

    with pytest.raises(KeyboardInterrupt):
        for_each(work, [(0,), (1,), (2,), (3,)])
    assert done == [0, 1, 2, 3]


@contextmanager
def own_handler() -> Iterator[list[int]]:
    """Have a handler of the user's that counts and raises."""
    calls: list[int] = []

    def handle(number: int, frame: Any) -> None:
        calls.append(number)
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield calls
        assert signal.getsignal(signal.SIGINT) is handle
    finally:
        signal.signal(signal.SIGINT, previous)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_while_something_is_put_back_comes_afterwards_once() -> None:
    done: list[str] = []

    def step() -> None:
        interrupt()
        for _ in range(1000):  # it would be raised here
            pass
        done.append("whole")

    with own_handler() as calls:
        with pytest.raises(KeyboardInterrupt):
            with restored(step):
                pass
            for _ in range(500):  # until it comes
                time.sleep(0.01)
        assert (done, len(calls)) == (["whole"], 1)


def test_an_interrupt_in_the_block_comes_at_once() -> None:
    with own_handler() as calls, pytest.raises(KeyboardInterrupt), restored():
        interrupt()
        time.sleep(5)
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_drops_is_raised_at_the_end() -> None:
    """Raised in the callback of a weak reference it would be printed, and lost."""

    class Dying:
        pass

    references = []

    @whole_call
    def call() -> None:
        dying = Dying()
        references.append(weakref.ref(dying, lambda _: interrupt()))
        del dying

    with own_handler() as calls, pytest.raises(KeyboardInterrupt):
        call()
    assert references[0]() is None
    assert len(calls) == 1


@contextmanager
def raise_at_the_first_line(code: CodeType) -> Iterator[None]:
    """Raise an interrupt where this code begins, the first time: there an error of another thread may come."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not code:
            return None
        if event == "line":
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)


def test_the_end_of_a_whole_call_may_be_kept_from_beginning() -> None:
    done: list[str] = []

    @whole_call
    def call() -> None:
        restored(lambda: done.append("put back")).__enter__()

    with own_handler():
        with pytest.raises(KeyboardInterrupt), raise_at_the_first_line(restored.__exit__.__code__):
            call()
        assert done == ["put back"]


@contextmanager
def switch_off(setting: dict[str, Any]) -> Iterator[None]:
    """Switch a setting of another library's off, as those do."""
    setting["on"] = False
    try:
        yield
    finally:
        setting["on"] = "by what was suspended"


@pytest.mark.parametrize("code", [contextlib._GeneratorContextManager.__exit__, ExitStack.__exit__])
def test_a_generator_that_was_not_ended_is_ended_before_all_is_put_back(code: Any) -> None:
    """It is ended when the error is forgotten otherwise, and changes the setting after it was put back."""
    setting: dict[str, Any] = {"on": True}
    error, stack = None, ExitStack()
    try:
        with restored(lambda: setting.update(on=True)):
            stack.enter_context(switch_off(setting))
            with raise_at_the_first_line(code.__code__):
                stack.close()
    except KeyboardInterrupt as interrupted:
        error = interrupted
    assert error is not None
    assert setting == {"on": True}
    error = None
    del stack
    gc.collect()
    assert setting == {"on": True}


def test_an_interrupt_that_python_drops_is_raised_though_the_call_fails() -> None:
    @whole_call
    def call() -> None:
        with suppress(KeyboardInterrupt):
            interrupt()
            time.sleep(5)
        raise ValueError

    with own_handler(), pytest.raises(KeyboardInterrupt):
        call()


def test_an_interrupt_that_python_drops_while_a_report_is_made_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop_interrupt(*arguments: object) -> None:  # as Python does in a callback of the collector's
        with suppress(KeyboardInterrupt):
            interrupt()
            time.sleep(5)

    profiler = Profiler(FakeModel(), inputs=FakeTensor((1, 4)), backend=FakeBackend()).register_defaults()
    profiler.compute_status("macs")
    monkeypatch.setattr(FakeBackend, "count_samples", drop_interrupt)
    with own_handler(), pytest.raises(KeyboardInterrupt):
        profiler.report()
