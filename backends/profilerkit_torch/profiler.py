"""`TorchProfiler`: the profiler for PyTorch models."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn

from profilerkit import Backend, Profiler
from profilerkit.times.watching import Watch

from .backend import TorchBackend

__all__ = ["TorchProfiler", "watch"]


class TorchProfiler(Profiler):
    """A `Profiler` whose backend is PyTorch's: for any ``torch.nn.Module``."""

    backend_class: ClassVar[type[Backend] | None] = TorchBackend


def watch(model: nn.Module, optimizer: Any = None, at_step: Any = 5) -> Watch:
    """Return a `Watch` that measures chosen steps of a training loop of the model.

    Args:
        model: The model that the loop trains.
        optimizer: The optimizer of the loop. Default: every optimizer that makes a step in a selected step.
        at_step: The number of a step, counted from 0, or several; None to use ``start()`` and ``stop()``.

    >>> import torch
    >>> from profilerkit_torch import watch
    >>> model = torch.nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with watch(model, at_step=(1, 2)) as watched:
    ...     for _ in range(4):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(8, 4)).sum().backward()
    ...         optimizer.step()
    ...         watched.step()
    >>> sorted(watched.steps.steps)
    [1, 2]
    """
    return TorchProfiler(model).watch(at_step, optimizer=optimizer)
