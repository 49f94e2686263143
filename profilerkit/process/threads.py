"""What each thread has for itself, and which thread waits for which."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType

__all__ = ["PerThread", "find_awaited"]


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


def find_awaited(thread: int) -> set[int]:
    """Return the threads that a thread waits for, without a timeout, and those that these wait for.

    It is read from the frames that Python runs at present, see `_list_awaited`.
    """
    frames = sys._current_frames()
    waiting = _find_waiting_code()
    awaited: set[int] = set()
    remaining = [thread]
    while remaining:
        new = set(_list_awaited(remaining.pop(), frames, waiting)) - awaited
        awaited |= new
        remaining += new
    return awaited


def _find_waiting_code() -> set[CodeType]:
    """Return the code of what waits for a thread to end, or for the result of a job of a pool.

    Where nothing has imported the module of pools, which is slow, there are none.
    """
    pools = sys.modules.get("concurrent.futures._base")
    code = {threading.Thread.join.__code__}
    return code if pools is None else code | {pools.Future.result.__code__}


def _list_awaited(thread: int, frames: Mapping[int, FrameType], waiting: set[CodeType]) -> Iterator[int]:
    """Yield the threads that one thread itself waits for: the variables of the method that waits tell which."""
    for frame in _list_frames(frames.get(thread)):
        if frame.f_code in waiting and frame.f_locals["timeout"] is None:
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
