"""Locks that are free in the child of a fork, and what the child undoes of what other threads had under way.

Of the threads of a process a forked child has one: the one that forked. A lock that another one held would be held in
the child for ever, and what that thread had changed for a while would stay changed. Nothing else in profilerkit makes
locks.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

__all__ = ["Lock", "PerThread", "undone_in_child"]


class Lock:
    """A lock; in a forked child it is free, unless the thread that forked holds it.

    A ``reentrant`` one may be taken by its holder again.

    >>> lock = Lock()
    >>> with lock, lock:
    ...     lock.held
    True
    >>> lock.held
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
    def held(self) -> bool:
        """Whether a thread holds it."""
        return bool(self._depth)

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; where it is not free wait for it, or return False where that is not wanted."""
        taken = self._lock.acquire(blocking)
        if taken:
            self._holder = threading.get_ident()
            self._depth += 1
        return taken

    def release(self) -> None:
        """Give the lock back."""
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _free(self) -> None:
        """Be a new lock in the child, where the holder is not the one thread that there is."""
        if self._holder != threading.get_ident() or not self._depth:
            self._make()


class PerThread:
    """A list for each thread; what threads that are gone have left, in a forked child too, no other one gets."""

    def __init__(self) -> None:
        self._lists: weakref.WeakKeyDictionary[threading.Thread, list[str]] = weakref.WeakKeyDictionary()

    def mine(self) -> list[str]:
        """Return the list of this thread."""
        return self._lists.setdefault(threading.current_thread(), [])

    def __reduce__(self) -> tuple[type[PerThread], tuple[()]]:
        """Be empty in a copy."""
        return PerThread, ()


@contextmanager
def undone_in_child(undo: Callable[[], object]) -> Iterator[None]:
    """Have ``undo`` called in the child of a fork that another thread makes inside this block.

    It must be short and take no lock but Python's: what runs in the child then is the fork itself.
    """
    entry = (threading.get_ident(), undo)
    _undone.append(entry)
    try:
        yield
    finally:
        _undone.remove(entry)


#: Every lock there is.
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
#: What threads have under way, each with what undoes it, the latest last.
_undone: list[tuple[int, Callable[[], object]]] = []


def _in_child() -> None:
    for lock in list(_locks):
        lock._free()
    mine = threading.get_ident()
    for entry in reversed(_undone.copy()):
        if entry[0] != mine:
            _undone.remove(entry)
            try:
                entry[1]()
            except Exception as error:
                warnings.warn(
                    f"the process forked while another thread profiled, and what that had changed cannot be put back "
                    f"here ({type(error).__name__}: {error}); use the model in the process that profiles it, or fork "
                    "before",
                    RuntimeWarning,
                    stacklevel=1,
                )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
