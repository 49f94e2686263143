"""The ONNX backend of profilerkit, and the metrics' functions again, so that one import line does.

Names are imported when they are first used: the plugin must be found where onnx is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import lazy_names

if TYPE_CHECKING:
    from profilerkit.costs import Cost, Shape
    from profilerkit_metrics import (
        ComputeComplexity,
        ComputeFlops,
        ComputeLayerwiseSummary,
        ComputeParams,
        ComputeSize,
    )

    from .backend import OnnxBackend
    from .costs import NodeCall, register_op_cost
    from .profiler import OnnxProfiler

__all__ = [
    "ComputeComplexity",
    "ComputeFlops",
    "ComputeLayerwiseSummary",
    "ComputeParams",
    "ComputeSize",
    "Cost",
    "NodeCall",
    "OnnxBackend",
    "OnnxProfiler",
    "Shape",
    "register_op_cost",
]

#: Where each name comes from. A test holds this, the imports above and `__all__` together.
_MODULES = {
    "ComputeComplexity": "profilerkit_metrics",
    "ComputeFlops": "profilerkit_metrics",
    "ComputeLayerwiseSummary": "profilerkit_metrics",
    "ComputeParams": "profilerkit_metrics",
    "ComputeSize": "profilerkit_metrics",
    "Cost": "profilerkit.costs",
    "NodeCall": ".costs",
    "OnnxBackend": ".backend",
    "OnnxProfiler": ".profiler",
    "Shape": "profilerkit.costs",
    "register_op_cost": ".costs",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES, "profilerkit[onnx]")
