"""The ONNX backend of profilerkit, and the metrics' functions again, so that one import line does.

Names are imported when they are first used: the plugin must be found if onnx is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

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
    from .running.optimized import optimize

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
    "optimize",
    "register_op_cost",
]

#: The module of each name. A test compares this with the imports above and with `__all__`.
_MODULES = module_of_each(
    {
        ".backend": "OnnxBackend",
        ".costs": "NodeCall register_op_cost",
        ".evaluation": "EvalLossFunction get_accuracy get_missclass get_topk",
        ".profiler": "OnnxProfiler",
        ".running.optimized": "optimize",
        "profilerkit.costs": "Cost Shape",
        "profilerkit_metrics": """
            ComputeComplexity ComputeEvalMetric ComputeExecutionTime ComputeFlops
            ComputeLayerwiseSummary ComputeParams ComputeSize
        """,
    }
)

install_lazy_names(__name__, _MODULES, "profilerkit[onnx]")
