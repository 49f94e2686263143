"""Locks that are free in a forked child, and after any error.

A forked child has one thread: the one that forked. Without this module, a lock that another thread held would be locked
in the child forever. All locks of profilerkit are made here; `restoring` undoes the changes of the other thread.
"""

from __future__ import annotations

import os
import time
import weakref
from threading import get_ident

from .interrupts import interruptible
from .restoring import restored

__all__ = ["Lock"]


class Lock:
    """A lock, which the thread that holds it may acquire again; in a forked child only the thread that forked has it.

    >>> lock = Lock()
    >>> with lock.block(), lock.block():
    ...     lock.is_held
    True
    >>> lock.is_held
    False
    """

    def __init__(self) -> None:
        #: The thread that holds it. One call of a method in C acquires or releases the lock, so that nothing can be
        #: raised between that and a note of who holds it.
        self._holder: dict[str, int] = {}
        _locks.add(self)

    @property
    def is_held(self) -> bool:
        """Whether a thread holds it."""
        return bool(self._holder)

    def block(self) -> restored:
        """Return a ``with`` block that holds the lock; an outer `restored` releases it where its end is not reached."""
        return _Block(self)

    def acquire(self) -> None:
        """Acquire the lock; wait while another thread holds it."""
        thread = get_ident()
        while self._holder.setdefault("thread", thread) != thread:
            _wait_a_moment()

    def is_own(self) -> bool:
        """Return whether this thread holds it."""
        return self._holder.get("thread") == get_ident()

    def release(self) -> None:
        """Release the lock if this thread holds it."""
        if self.is_own():
            self._holder.clear()


class _Block(restored):
    """Acquires a lock, and releases it unless this thread held it before."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Lock) -> None:
        super().__init__(*(() if lock.is_own() else (lock.release,)), in_child=False)
        self._lock = lock

    def __enter__(self) -> None:
        super().__enter__()
        try:
            self._lock.acquire()
        except BaseException as error:  # while it waited for another thread
            self.__exit__(type(error), error, error.__traceback__)
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
        if not lock.is_own():
            lock._holder.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
