"""The TensorFlow backend of profilerkit, and the metrics' functions again, so that one import line does.

Names are imported when they are first used: the plugin must be found even if TensorFlow is missing.
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
        DynamicEvalMetric,
    )

    from .backend import TFBackend
    from .costs import OpCall, register_layer_cost, register_op_cost
    from .data import TFDataLoader, TFForwardPass
    from .evaluation import EvalLossFunction, get_accuracy, get_missclass, get_topk
    from .profiler import TFProfiler, watch

__all__ = [
    "ComputeComplexity",
    "ComputeEvalMetric",
    "ComputeExecutionTime",
    "ComputeFlops",
    "ComputeLayerwiseSummary",
    "ComputeParams",
    "ComputeSize",
    "Cost",
    "DynamicEvalMetric",
    "EvalLossFunction",
    "OpCall",
    "Shape",
    "TFBackend",
    "TFDataLoader",
    "TFForwardPass",
    "TFProfiler",
    "get_accuracy",
    "get_missclass",
    "get_topk",
    "register_layer_cost",
    "register_op_cost",
    "watch",
]

#: Where each name comes from. A test holds this, the imports above and `__all__` together.
_MODULES = module_of_each(
    {
        ".backend": "TFBackend",
        ".costs": "OpCall register_layer_cost register_op_cost",
        ".data": "TFDataLoader TFForwardPass",
        ".evaluation": "EvalLossFunction get_accuracy get_missclass get_topk",
        ".profiler": "TFProfiler watch",
        "profilerkit.costs": "Cost Shape",
        "profilerkit_metrics": """
            ComputeComplexity ComputeEvalMetric ComputeExecutionTime ComputeFlops
            ComputeLayerwiseSummary ComputeParams ComputeSize DynamicEvalMetric
        """,
    }
)

install_lazy_names(__name__, _MODULES, "profilerkit[tensorflow]")
