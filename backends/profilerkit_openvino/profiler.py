"""`OpenvinoProfiler`: the profiler for OpenVINO models."""

from __future__ import annotations

from typing import ClassVar

from profilerkit import Backend, Profiler

from .backend import OpenvinoBackend

__all__ = ["OpenvinoProfiler"]


class OpenvinoProfiler(Profiler):
    """A `Profiler` whose backend is OpenVINO's: for ``openvino.Model`` and ``.xml`` files."""

    backend_class: ClassVar[type[Backend] | None] = OpenvinoBackend
