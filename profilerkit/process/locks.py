"""Locks that are free in a forked child.

A forked child has one thread: the one that forked. Without this module, a lock that another thread held would be locked
in the child forever. All locks of profilerkit are made here; `restoring` undoes what that thread had changed.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from types import TracebackType

from .interrupts import interruptible
from .restoring import restored

__all__ = ["Lock"]


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
            _wait_a_moment()
        self._holder = threading.get_ident()
        self._depth += 1
        return True

    def release(self) -> None:
        """Release the lock."""
        self._depth -= 1
        self._lock.release()

    def block(self) -> restored:
        """Return a ``with`` block that holds the lock; an outer `restored` releases it where its end is not reached."""
        return _Block(self)

    def _own_depth(self) -> int:
        return self._depth if self._holder == threading.get_ident() else 0

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class _Block(restored):
    """Releases a lock as often as it was acquired inside."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Lock) -> None:
        depth = lock._own_depth()

        def release() -> None:
            while lock._own_depth() > depth:
                lock.release()

        super().__init__(release, in_child=False)
        self._lock = lock

    def __enter__(self) -> None:
        super().__enter__()
        try:
            self._lock.acquire()
        except BaseException as error:  # while it waited for another thread
            self._put_back(error)
            raise


@interruptible
def _wait_a_moment() -> None:
    """Wait for another thread: here an interrupt finds nothing taken."""
    time.sleep(0.002)


#: All locks.
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _in_child() -> None:
    """Free the locks of threads that the child has not."""
    for lock in list(_locks):
        lock._free_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
