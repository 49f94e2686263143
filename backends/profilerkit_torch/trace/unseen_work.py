"""Work that a pass cannot see: that of other threads of this process, and CUDA graphs that the model replays.

- `OtherThreads` tells whether a thread may have computed something; `origins` asks it of tensors that nobody made.
- `ThreadCalls` counts the calls of layers in other threads, of which `layers` tells it.
- `count_missing_replays` has each replay of a CUDA graph reported as not counted.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
from torch import nn

from profilerkit import ModelChangedWarning
from profilerkit.process.restoring import restored
from profilerkit.process.user_lines import find_stack_level

__all__ = ["OtherThreads", "ThreadCalls", "count_missing_replays"]


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


class ThreadCalls:
    """Counts the calls of a model's layers in other threads than that of a pass: their operators are not seen."""

    def __init__(self) -> None:
        #: How many calls there were of layers of each type, by what messages call that.
        self.counts: Counter[str] = Counter()
        self._older_threads: set[int | None] = set()
        self._calls_by_older_threads = 0

    def note_threads(self) -> None:
        """Note the threads that there are before a pass."""
        self._older_threads = {thread.ident for thread in threading.enumerate()}

    def note_call(self, module: nn.Module) -> None:
        """Note that this thread, which is not the thread of the pass, calls a layer of the model."""
        self.counts[f"{type(module).__name__} in another thread"] += 1
        if get_ident() in self._older_threads:
            self._calls_by_older_threads += 1

    def warn_of_older_threads(self) -> None:
        """Warn of calls by threads that were there before a pass on shapes alone: they got what stands in for weights.

        A thread that the model starts in the pass is no other user of the model, and no reason to warn.
        """
        if self._calls_by_older_threads:
            warnings.warn(
                f"another thread called the model, or layers of it, {self._calls_by_older_threads} times while it was "
                "counted on shapes alone: these calls got tensors without values; do not use a model in one thread "
                "while it is profiled in another, or profile a copy.deepcopy of it",
                ModelChangedWarning,
                stacklevel=find_stack_level(),
            )


#: What messages call the replay of a CUDA graph.
_REPLAY = "torch.cuda.CUDAGraph.replay"


@contextmanager
def count_missing_replays(recorder: Any) -> Iterator[None]:
    """Count each replay of this thread as an operator that is not counted, and of unknown size.

    Where tensors without values stand in for the model's, nothing is replayed: it would write to real memory.
    """
    graph: Any = torch.cuda.CUDAGraph
    replay, thread = graph.replay, threading.get_ident()

    def miss(self: Any) -> None:
        if threading.get_ident() != thread:
            replay(self)
            return
        recorder.miss_unsized(_REPLAY)
        if not recorder.settings.stands_in:
            replay(self)

    with restored(lambda: setattr(graph, "replay", replay)):
        graph.replay = miss
        yield
