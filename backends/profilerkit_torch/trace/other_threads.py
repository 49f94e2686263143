"""The other threads of this process: whether they have run, or were started, since a pass began."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from profilerkit.process.restoring import restored

__all__ = ["OtherThreads"]


class OtherThreads:
    """What other threads do while a pass is followed."""

    def __init__(self) -> None:
        #: Whether a thread was started.
        self.were_started = False
        #: What the system had counted of each thread before; None where it does not count.
        self._before: dict[int, str] | None = {}

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Note each thread that is started: the first thing that it runs is a profile function of ours."""
        before = threading.getprofile()

        def note(frame: Any, event: str, argument: Any) -> None:
            self.were_started = True
            sys.setprofile(before)

        with restored(lambda: threading.setprofile(before), in_child=False):
            threading.setprofile(note)
            yield

    def begin_counting(self) -> None:
        """Note how long the threads that there are have run."""
        self._before = _count_runs()

    def have_run(self, *, if_unknown: bool) -> bool:
        """Return whether a thread has run since; ``if_unknown`` where there are threads, and nothing is counted."""
        before, now = self._before, _count_runs()
        if before is None or now is None:
            return if_unknown and threading.active_count() > 1
        return any(counted != before.get(thread) for thread, counted in now.items())


def _count_runs() -> dict[int, str] | None:
    """Return how long, and how many times, each other thread has run, by its number; None where that is not known.

    The thread that asks has run: where that is not counted, neither are the others. Threads that have ended are left
    out.
    """
    counted = {}
    current = threading.get_native_id()
    for number in filter(None, {current, *(thread.native_id for thread in threading.enumerate())}):
        with suppress(OSError):  # of one that has ended; of all where a system does not count
            run, _, times = Path(f"/proc/self/task/{number}/schedstat").read_text(encoding="ascii").split()
            counted[number] = f"{run} {times}"
    return None if counted.pop(current, "0 0") == "0 0" else counted
