"""Settings of the process that are changed for the time of a pass and put back, in forked children too."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from profilerkit.process.locks import undone_in_child

from .preservation import one_at_a_time
from .triton_import import answer_for_triton

__all__ = ["deeper_recursion", "operator_by_operator", "uncompiled"]


@contextmanager
def uncompiled() -> Iterator[None]:
    """Have compiled code run as it was written, in the whole process."""
    answer_for_triton()
    stance = torch.compiler.set_stance("force_eager")
    with stance, undone_in_child(lambda: stance.__exit__(None, None, None)):
        yield


@contextmanager
def operator_by_operator(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Have compiled code run as it was written, and scripts without fusing operators, so that each is seen.

    These settings are the whole process': another thread waits here, or it would take ours for the user's.
    """
    with one_at_a_time, ExitStack() as settings:
        settings.enter_context(uncompiled())
        if any(isinstance(module, torch.jit.ScriptModule) for module in modules):
            fused = torch._C._get_graph_executor_optimize()
            settings.enter_context(undone_in_child(lambda: torch._C._set_graph_executor_optimize(fused)))
            settings.enter_context(torch.jit.optimized_execution(False))  # type: ignore[attr-defined]
        yield


@contextmanager
def deeper_recursion() -> Iterator[None]:
    """Double the recursion limit: following layers costs each call a frame, and no model may fail for that."""
    limit = sys.getrecursionlimit()

    def hand_back() -> None:
        sys.setrecursionlimit(limit)

    try:
        with undone_in_child(hand_back):
            sys.setrecursionlimit(2 * limit)
            yield
    finally:
        hand_back()
