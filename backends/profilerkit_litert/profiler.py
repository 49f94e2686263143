"""`LiteRTProfiler`: the profiler for models of LiteRT."""

from __future__ import annotations

from typing import ClassVar

from profilerkit import Backend, Profiler

from .backend import LiteRTBackend

__all__ = ["LiteRTProfiler"]


class LiteRTProfiler(Profiler):
    """A `Profiler` whose backend is LiteRT's: for ``.tflite`` files, their bytes, and `LiteRTModel`."""

    backend_class: ClassVar[type[Backend] | None] = LiteRTBackend
