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
        ComputeEvalMetric,
        ComputeExecutionTime,
        ComputeFlops,
        ComputeLayerwiseSummary,
        ComputeParams,
        ComputeSize,
    )

    from .backend import OnnxBackend
    from .costs import NodeCall, register_op_cost
    from .evaluation import EvalLossFunction, get_accuracy, get_missclass, get_topk
    from .profiler import OnnxProfiler
    from .running.optimized import optimized

__all__ = [
    "ComputeComplexity",
    "ComputeEvalMetric",
    "ComputeExecutionTime",
    "ComputeFlops",
    "ComputeLayerwiseSummary",
    "ComputeParams",
    "ComputeSize",
    "Cost",
    "EvalLossFunction",
    "NodeCall",
    "OnnxBackend",
    "OnnxProfiler",
    "Shape",
    "get_accuracy",
    "get_missclass",
    "get_topk",
    "optimized",
    "register_op_cost",
]

#: Where each name comes from. A test holds this, the imports above and `__all__` together.
_MODULES = {
    "ComputeComplexity": "profilerkit_metrics",
    "ComputeEvalMetric": "profilerkit_metrics",
    "ComputeExecutionTime": "profilerkit_metrics",
    "ComputeFlops": "profilerkit_metrics",
    "ComputeLayerwiseSummary": "profilerkit_metrics",
    "ComputeParams": "profilerkit_metrics",
    "ComputeSize": "profilerkit_metrics",
    "Cost": "profilerkit.costs",
    "EvalLossFunction": ".evaluation",
    "NodeCall": ".costs",
    "OnnxBackend": ".backend",
    "OnnxProfiler": ".profiler",
    "Shape": "profilerkit.costs",
    "get_accuracy": ".evaluation",
    "get_missclass": ".evaluation",
    "get_topk": ".evaluation",
    "optimized": ".running.optimized",
    "register_op_cost": ".costs",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES, "profilerkit[onnx]")
