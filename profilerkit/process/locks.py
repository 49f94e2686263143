"""Locks that are free in a forked child.

A forked child has one thread: the one that forked. Without this module, a lock that another thread held would be locked
in the child forever. All locks of profilerkit are made here; `restoring` undoes what that thread had changed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from types import FrameType, TracebackType

from ..errors import ProfilerBusyError
from .restoring import interruptible

__all__ = ["Lock", "PerThread"]


class Lock:
    """A lock; in a forked child it is free, unless the thread that forked holds it.

    The thread that holds a ``reentrant`` lock may acquire it again.

    >>> lock = Lock()
    >>> with lock, lock:
    ...     lock.is_held
    True
    >>> lock.is_held
    False
    """

    def __init__(self, *, reentrant: bool = True) -> None:
        self._reentrant = reentrant
        self._make()
        _locks.add(self)

    def _make(self) -> None:
        self._lock = threading.RLock() if self._reentrant else threading.Lock()
        self._holder = self._depth = 0

    @property
    def is_held(self) -> bool:
        """Whether a thread holds it."""
        return bool(self._depth)

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire the lock and return True; if another thread holds it, wait, or return False if not ``blocking``."""
        while not self._lock.acquire(blocking=False):
            if not blocking:
                return False
            self._wait()
        self._holder = threading.get_ident()
        self._depth += 1
        return True

    @interruptible
    def _wait(self) -> None:
        """Wait a moment for another thread: here an interrupt finds nothing taken.

        Raises `ProfilerBusyError` if that thread waits, without a timeout, for this one, its result, or one that does.
        """
        if threading.get_ident() in _find_awaited(self._holder):
            raise ProfilerBusyError(
                "this thread waits for one that profiles, which waits for this thread: a model may not join a "
                "thread, or take the result of one, that profiles; profile before or after the model's call"
            )
        time.sleep(0.002)

    def release(self) -> None:
        """Release the lock."""
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _free(self) -> None:
        """Make a new lock in the child, unless the child's only thread holds it."""
        if self._holder != threading.get_ident() or not self._depth:
            self._make()


class PerThread:
    """A list for each thread; no thread gets the list of one that has ended, in a forked child either."""

    def __init__(self) -> None:
        self._lists: weakref.WeakKeyDictionary[threading.Thread, list[str]] = weakref.WeakKeyDictionary()

    def mine(self) -> list[str]:
        """Return the list of this thread."""
        return self._lists.setdefault(threading.current_thread(), [])

    def __reduce__(self) -> tuple[type[PerThread], tuple[()]]:
        """Return what makes a copy, which is empty."""
        return PerThread, ()


#: What waits for a thread to end, or for the result of a job.
_WAITING = frozenset({threading.Thread.join.__code__, Future.result.__code__})


def _find_awaited(thread: int) -> set[int]:
    """Return the threads that a thread waits for, without a timeout, and those that these wait for."""
    latest = sys._current_frames()
    awaited: set[int] = set()
    waiting = [thread]
    while waiting:
        for frame in _frames(latest.get(waiting.pop())):
            if frame.f_code in _WAITING and frame.f_locals["timeout"] is None:
                ended = frame.f_locals["self"]
                number = ended.ident if isinstance(ended, threading.Thread) else _thread_in(ended, latest)
                if number is not None and number not in awaited:
                    awaited.add(number)
                    waiting.append(number)
    return awaited


def _thread_in(job: object, latest: Mapping[int, FrameType]) -> int | None:
    """Return the thread of a pool that is in a job; None while no thread is."""
    return next((number for number, frame in latest.items() if job in _jobs(frame)), None)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _jobs(frame: FrameType) -> Iterator[object]:
    """Yield the futures of the jobs of a pool that a thread is in."""
    for outer in _frames(frame):
        if outer.f_code.co_name == "run" and outer.f_globals.get("__name__") == "concurrent.futures.thread":
            yield getattr(outer.f_locals.get("self"), "future", None)


#: All locks.
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _in_child() -> None:
    for lock in list(_locks):
        lock._free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
