"""Calls of a model's layers in other threads than that of a pass: their operators are not seen."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from threading import get_ident

from torch import nn

from profilerkit import ModelChangedWarning
from profilerkit.process.user_lines import find_stack_level

__all__ = ["ThreadCalls"]


class ThreadCalls:
    """Counts the calls, and knows by which threads they were made."""

    def __init__(self) -> None:
        #: How many calls there were of layers of each type, by what messages call that.
        self.counts: Counter[str] = Counter()
        self._older_threads: set[int | None] = set()
        self._calls_by_older_threads = 0

    def note_threads(self) -> None:
        """Note the threads that there are before a pass."""
        self._older_threads = {thread.ident for thread in threading.enumerate()}

    def note_call(self, module: nn.Module) -> None:
        """Note that this thread, another one than that of the pass, calls a layer of the model's."""
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
