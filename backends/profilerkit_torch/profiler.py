"""`TorchProfiler`: the profiler for PyTorch models."""

from __future__ import annotations

from typing import ClassVar

from profilerkit import Backend, Profiler

from .backend import TorchBackend

__all__ = ["TorchProfiler"]


class TorchProfiler(Profiler):
    """A `Profiler` whose backend is PyTorch's: for any ``torch.nn.Module``."""

    backend_class: ClassVar[type[Backend] | None] = TorchBackend
