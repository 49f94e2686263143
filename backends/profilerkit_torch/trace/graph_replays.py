"""CUDA graphs that a model replays: no trace sees what they hold, and a replay is a call that is not counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from profilerkit.process.restoring import restored

__all__ = ["NAME", "count_missing_replays"]

NAME = "torch.cuda.CUDAGraph.replay"


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
        recorder.miss_unsized(NAME)
        if not recorder.stands_in:
            replay(self)

    with restored(lambda: setattr(graph, "replay", replay)):
        graph.replay = miss
        yield
