"""The PyTorch backend of profilerkit, and the metrics' functions again, so that one import line does.

Names are imported when they are first used: the plugin must be found where torch is missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profilerkit_metrics import (
        ComputeComplexity,
        ComputeEvalMetric,
        ComputeExecutionTime,
        ComputeFlops,
        ComputeLayerwiseSummary,
        ComputeParams,
        ComputeSize,
    )

    from .backend import TorchBackend
    from .costs import Cost, Shape, register_module_cost, register_op_cost
    from .data import TorchDataLoader, TorchForwardPass
    from .evaluation import EvalLossFunction, get_accuracy, get_missclass, get_topk
    from .profiler import TorchProfiler

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
    "Shape",
    "TorchBackend",
    "TorchDataLoader",
    "TorchForwardPass",
    "TorchProfiler",
    "get_accuracy",
    "get_missclass",
    "get_topk",
    "register_module_cost",
    "register_op_cost",
]

#: Where each name comes from; what is not listed is one of the metrics' functions.
_MODULES = {
    "TorchBackend": ".backend",
    "Cost": ".costs",
    "Shape": ".costs",
    "register_module_cost": ".costs",
    "register_op_cost": ".costs",
    "TorchDataLoader": ".data",
    "TorchForwardPass": ".data",
    "EvalLossFunction": ".evaluation",
    "get_accuracy": ".evaluation",
    "get_missclass": ".evaluation",
    "get_topk": ".evaluation",
    "TorchProfiler": ".profiler",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_MODULES.get(name, "profilerkit_metrics"), __name__)
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
