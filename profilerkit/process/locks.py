"""Locks that are free in a forked child, and the undoing in the child of what other threads had changed temporarily.

A forked child has one thread: the one that forked. Without this module, a lock that another thread held would be locked
in the child forever, and what that thread had changed temporarily would stay changed. All locks of profilerkit are made
here.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from types import TracebackType

__all__ = ["Lock", "PerThread", "undone_in_child"]


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
        acquired = self._lock.acquire(blocking)
        if acquired:
            self._holder = threading.get_ident()
            self._depth += 1
        return acquired

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


class undone_in_child:
    """Calls ``undo`` in the child if another thread forks the process during this ``with`` block.

    ``undo`` must be short and acquire no lock but Python's, since it runs while the fork is in progress.
    """

    __slots__ = ("_entry",)

    def __init__(self, undo: Callable[[], object]) -> None:
        self._entry = (0, undo)

    def __enter__(self) -> None:
        self._entry = (threading.get_ident(), self._entry[1])
        _undone.append(self._entry)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _undone.remove(self._entry)


#: All locks.
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
#: The open `undone_in_child` blocks: the thread and its function, the latest last.
_undone: list[tuple[int, Callable[[], object]]] = []


def _in_child() -> None:
    for lock in list(_locks):
        lock._free()
    this_thread = threading.get_ident()
    for entry in reversed(_undone.copy()):
        thread, undo = entry
        if thread != this_thread:
            _undone.remove(entry)
            try:
                undo()
            except Exception as error:
                warnings.warn(
                    "the process forked while another thread profiled, and what that thread had changed cannot be "
                    f"restored in the child ({type(error).__name__}: {error}); use the model in the process that "
                    "profiles it, or fork before profiling",
                    RuntimeWarning,
                    stacklevel=1,
                )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
