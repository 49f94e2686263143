"""Locks and what is remembered, where a process forks while another thread is busy, and where objects die."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from source_tree import ROOT
from time_limits import join, run_program, wait_for_child

from profilerkit.process.cached import cached_property, once_for_each
from profilerkit.process.collector import collector_paused
from profilerkit.process.locks import Lock
from profilerkit.process.restoring import restored

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
#: Of the child of a process with threads, Python 3.12 and later say that it may hang; here it must not.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def result_in_child(ask: Callable[[], object]) -> str:
    """Fork, and return what a function returns in the child, as text; a child that hangs is ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(30)
        try:
            os.write(writing, str(ask()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    status = wait_for_child(child)
    return text if not status else f"ended with {status}"


@contextmanager
def another_thread(inside: Callable[[], Any]) -> Iterator[None]:
    """Have another thread inside a context manager meanwhile."""
    entered, leave = threading.Event(), threading.Event()

    def run() -> None:
        with inside():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    assert entered.wait(60)
    try:
        yield
    finally:
        leave.set()
        join(thread)


def acquire_in_vain(lock: Lock) -> bool:
    """Return whether an interrupt ends the wait for a lock that another thread holds, and leaves it to that one."""

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("profilerkit.process.locks.time.sleep", interrupt)
        with lock.block():
            pass
    return lock.is_held and not lock.is_own()


@forks
def test_a_lock_that_another_thread_holds_is_free_in_the_child() -> None:
    lock = Lock()

    def take() -> tuple[bool, bool, bool]:
        was_held = lock.is_held
        with lock.block():
            return was_held, lock.is_own(), lock.is_held

    with another_thread(lock.block):
        assert acquire_in_vain(lock)
        assert result_in_child(take) == "(False, True, True)"
        assert lock.is_held
    assert not lock.is_held


@forks
def test_a_lock_of_the_forking_thread_stays_locked() -> None:
    lock = Lock()

    def leave() -> tuple[bool, bool]:
        is_held = lock.is_held
        lock.release()
        return is_held, lock.is_held

    with lock.block():
        assert result_in_child(leave) == "(True, False)"
    assert not lock.is_held


def test_a_lock_excludes_and_is_released() -> None:
    lock = Lock()
    with lock.block():
        with lock.block():
            assert lock.is_own()
        assert lock.is_held, "the outer block holds it"
    with pytest.raises(ZeroDivisionError), lock.block():
        raise ZeroDivisionError
    assert not lock.is_held


def test_threads_take_turns() -> None:
    lock, inside, most = Lock(), [], []

    def work() -> None:
        for _ in range(200):
            with lock.block():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert set(most) == {1}
    assert not lock.is_held


def test_an_error_before_any_step_of_python_leaves_no_lock_held() -> None:
    """As of the handler of another signal, which may come before each instruction of the code that acquires a lock."""

    def count_steps(last: int) -> int:
        """Acquire and release a lock; raise before the instruction of this number. Return how many there were."""
        lock, count = Lock(), 0

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal count
            if Path(frame.f_code.co_filename).name != "locks.py":
                return None
            frame.f_trace_opcodes = True
            count += event == "opcode"
            if event == "opcode" and count == last:
                raise TimeoutError
            return trace

        before = sys.gettrace()
        with suppress(TimeoutError), restored():
            sys.settrace(trace)
            with lock.block():
                assert lock.is_held
        sys.settrace(before)
        with another_thread(lock.block):
            assert lock.is_held
        return count

    steps = count_steps(0)
    assert steps > 50
    assert [count_steps(step) for step in range(1, steps + 1)] == [*range(1, steps + 1)]


def test_the_block_of_a_lock_whose_end_is_not_reached_is_released_by_the_one_around_it() -> None:
    lock = Lock()
    with lock.block():
        with restored():
            lock.block().__enter__()  # as where an error comes before the first line of its __exit__
        assert lock.is_held
    assert not lock.is_held


@forks
def test_changes_of_another_thread_are_undone_in_the_child_the_latest_first() -> None:
    done: list[str] = []

    @contextmanager
    def both() -> Iterator[None]:
        with restored(in_child=lambda: done.append("first")), restored(in_child=lambda: done.append("second")):
            yield

    with another_thread(both), restored(in_child=lambda: done.append("own")):
        assert result_in_child(lambda: done) == "['second', 'first']"
    assert result_in_child(lambda: done) == "[]", "it was over"
    assert done == []


@forks
def test_a_change_that_cannot_be_undone_is_a_warning_and_the_others_are_undone() -> None:
    code = """
import os, sys, threading
from profilerkit.process.restoring import restored
entered, leave = threading.Event(), threading.Event()
def run():
    with restored(in_child=lambda: print('undone', flush=True)), restored(in_child=lambda: 1 / 0):
        entered.set()
        leave.wait()
threading.Thread(target=run).start()
entered.wait()
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
leave.set()
"""
    done = run_program([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code])
    assert done.stdout == "undone\n"
    assert (
        "RuntimeWarning: the process forked while another thread profiled, and what that thread had changed cannot be "
        "restored in the child (ZeroDivisionError: division by zero); use the model in the process that profiles it, "
        "or fork before profiling"
    ) in done.stderr


@forks
def test_the_garbage_collector_runs_in_the_child() -> None:
    assert gc.isenabled()
    with another_thread(collector_paused):
        assert not gc.isenabled()
        assert result_in_child(gc.isenabled) == "True"
    assert gc.isenabled()


LOADS = """
import os, signal, sys, threading
from profilerkit.hooks.backends import backends
from profilerkit.hooks import manager
entered, leave = threading.Event(), threading.Event()
load_installed = manager.load_installed
def slow(plugins, own):
    if threading.current_thread() is worker:
        entered.set()
        leave.wait()
    load_installed(plugins, own)
manager.load_installed = slow
worker = threading.Thread(target=backends)
worker.start()
entered.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    print(*sorted(info.name for info in backends()), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
leave.set()
worker.join()
"""


@forks
def test_plugins_that_another_thread_is_loading_are_loaded_in_the_child() -> None:
    done = run_program([sys.executable, "-W", "ignore::DeprecationWarning", "-c", LOADS])
    names = [path.name.removeprefix("profilerkit_") for path in (ROOT / "backends").glob("profilerkit_*")]
    assert done.stdout == f"{' '.join(sorted(['numpy', *names]))}\n0\n"


@forks
def test_a_property_that_another_thread_computes_is_computed_in_the_child() -> None:
    """Python's own has a lock before 3.12: the child would wait for it for ever."""
    entered, leave = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def answer(self) -> int:
            """What it is."""
            if threading.current_thread() is worker:
                entered.set()
                leave.wait(60)
            return 42

    slow = Slow()
    worker = threading.Thread(target=lambda: slow.answer)
    worker.start()
    assert entered.wait(60)
    assert result_in_child(lambda: slow.answer) == "42"
    leave.set()
    join(worker)
    assert slow.__dict__ == {"answer": 42}
    assert Slow.answer.__doc__ == "What it is."


def test_a_cached_result_does_not_keep_its_class_alive() -> None:
    asked = []

    @once_for_each
    def name_of(kind: type) -> str:
        """Say it."""
        asked.append(kind.__name__)
        return kind.__name__

    class Equal(type):
        """Classes that say they are equal, and have no hash."""

        def __eq__(cls, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    first, second = Equal("First", (), {}), Equal("Second", (), {})
    assert [name_of(first), name_of(second), name_of(first)] == ["First", "Second", "First"]
    assert asked == ["First", "Second"]
    assert [reference.__callback__ for reference in weakref.getweakrefs(first)] == [None]  # interrupts are lost in one
    reference = weakref.ref(first)
    del first
    gc.collect()
    assert reference() is None
    assert name_of(second) == "Second"
    assert asked == ["First", "Second"]
    assert name_of.__doc__ == "Say it."
