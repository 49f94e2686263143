"""`TFProfiler`: the profiler for TensorFlow and Keras models."""

from __future__ import annotations

from typing import ClassVar

from profilerkit import Backend, Profiler

from .backend import TFBackend

__all__ = ["TFProfiler"]


class TFProfiler(Profiler):
    """A `Profiler` whose backend is TensorFlow's: for Keras models, ``tf.Module``, functions and saved models."""

    backend_class: ClassVar[type[Backend] | None] = TFBackend
