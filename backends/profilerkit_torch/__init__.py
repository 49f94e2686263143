"""The PyTorch backend of profilerkit, and the metrics' functions again, so that one import line does.

Names are imported when they are first used: the plugin must be found also if torch is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
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

    from .backend import TorchBackend
    from .costs import Cost, Shape, register_module_cost, register_op_cost
    from .data import TorchDataLoader, TorchForwardPass
    from .evaluation import EvalLossFunction, get_accuracy, get_missclass, get_topk
    from .layer_timing.timer import layer_times
    from .profiler import TorchProfiler, watch

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
    "Shape",
    "TorchBackend",
    "TorchDataLoader",
    "TorchForwardPass",
    "TorchProfiler",
    "get_accuracy",
    "get_missclass",
    "get_topk",
    "layer_times",
    "register_module_cost",
    "register_op_cost",
    "watch",
]

#: The module of each name. A test compares it with the imports above and `__all__`.
_MODULES = module_of_each(
    {
        ".backend": "TorchBackend",
        ".costs": "Cost Shape register_module_cost register_op_cost",
        ".data": "TorchDataLoader TorchForwardPass",
        ".evaluation": "EvalLossFunction get_accuracy get_missclass get_topk",
        ".layer_timing.timer": "layer_times",
        ".profiler": "TorchProfiler watch",
        "profilerkit_metrics": """
            ComputeComplexity ComputeEvalMetric ComputeExecutionTime ComputeFlops
            ComputeLayerwiseSummary ComputeParams ComputeSize DynamicEvalMetric
        """,
    }
)

install_lazy_names(__name__, _MODULES, "profilerkit[torch]")
