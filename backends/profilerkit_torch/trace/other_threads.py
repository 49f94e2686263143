"""What the system counts of the other threads of this process: by it they show whether they have run since."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["count_runs"]


def count_runs() -> dict[int, str] | None:
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
