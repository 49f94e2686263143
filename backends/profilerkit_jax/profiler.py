"""`JaxProfiler`: the profiler for JAX models."""

from __future__ import annotations

from typing import ClassVar

from profilerkit import Backend, Profiler

from .backend import JaxBackend

__all__ = ["JaxProfiler"]


class JaxProfiler(Profiler):
    """A `Profiler` whose backend is JAX's: for functions, `JaxModel`, and the modules of Flax and Equinox."""

    backend_class: ClassVar[type[Backend] | None] = JaxBackend
