"""`OnnxProfiler`: the profiler for ONNX models."""

from __future__ import annotations

from typing import ClassVar

from profilerkit import Backend, Profiler

from .backend import OnnxBackend

__all__ = ["OnnxProfiler"]


class OnnxProfiler(Profiler):
    """A `Profiler` whose backend is ONNX's: for ``ModelProto``, ``.onnx`` files and ``torch.onnx.ONNXProgram``."""

    backend_class: ClassVar[type[Backend] | None] = OnnxBackend
