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
        self._renew()
        _locks.add(self)

    def _renew(self) -> None:
        """Put a lock of Python's that nobody holds in the place of the one before, if there was one."""
        self._lock = threading.RLock() if self._reentrant else threading.Lock()
        #: The thread that acquired it last, and how often that one holds it.
        self._holder = self._depth = 0

    def _free_in_child(self) -> None:
        """Free the lock in a forked child, unless the child's only thread holds it."""
        if self._holder != threading.get_ident() or not self._depth:
            self._renew()

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


#: All locks.
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _in_child() -> None:
    """Free the locks of threads that the child has not."""
    for lock in list(_locks):
        lock._free_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


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


# Which thread waits for which -----------------------------------------------------------------------------------------

#: The code of what waits for a thread to end, or for the result of a job of a pool.
_WAITING = frozenset({threading.Thread.join.__code__, Future.result.__code__})


def _find_awaited(thread: int) -> set[int]:
    """Return the threads that a thread waits for, without a timeout, and those that these wait for."""
    frames = sys._current_frames()
    awaited: set[int] = set()
    remaining = [thread]
    while remaining:
        new = set(_list_awaited(remaining.pop(), frames)) - awaited
        awaited |= new
        remaining += new
    return awaited


def _list_awaited(thread: int, frames: Mapping[int, FrameType]) -> Iterator[int]:
    """Yield the threads that one thread itself waits for: the variables of the method that waits tell which."""
    for frame in _list_frames(frames.get(thread)):
        if frame.f_code in _WAITING and frame.f_locals["timeout"] is None:
            target = frame.f_locals["self"]
            number = target.ident if isinstance(target, threading.Thread) else _find_thread(target, frames)
            if number is not None:
                yield number


def _find_thread(job: object, frames: Mapping[int, FrameType]) -> int | None:
    """Return the thread of a pool that runs the job of a future; None while no thread does."""
    return next((thread for thread, frame in frames.items() if job in _list_jobs(frame)), None)


def _list_jobs(frame: FrameType) -> Iterator[object]:
    """Yield the futures of the jobs that a thread runs, if it is one of a pool."""
    for outer in _list_frames(frame):
        if outer.f_code.co_name == "run" and outer.f_globals.get("__name__") == "concurrent.futures.thread":
            yield getattr(outer.f_locals.get("self"), "future", None)


def _list_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those around it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back
