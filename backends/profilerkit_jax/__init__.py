"""The JAX backend of profilerkit, and the metrics' functions again, so that one import line does.

Names are imported when they are first used: the plugin must be found even if jax is missing.
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

    from .backend import JaxBackend
    from .costs import PrimitiveCall, register_op_cost
    from .evaluation import EvalLossFunction, get_accuracy, get_missclass, get_topk
    from .meshes.shardings import Shardings
    from .model.jax_model import JaxModel
    from .profiler import JaxProfiler
    from .running.compiled import CompiledAnalysis, compiled_analysis

__all__ = [
    "CompiledAnalysis",
    "ComputeComplexity",
    "ComputeEvalMetric",
    "ComputeExecutionTime",
    "ComputeFlops",
    "ComputeLayerwiseSummary",
    "ComputeParams",
    "ComputeSize",
    "Cost",
    "EvalLossFunction",
    "JaxBackend",
    "JaxModel",
    "JaxProfiler",
    "PrimitiveCall",
    "Shape",
    "Shardings",
    "compiled_analysis",
    "get_accuracy",
    "get_missclass",
    "get_topk",
    "register_op_cost",
]

#: Where each name comes from. A test holds this, the imports above and `__all__` together.
_MODULES = module_of_each(
    {
        ".backend": "JaxBackend",
        ".costs": "PrimitiveCall register_op_cost",
        ".evaluation": "EvalLossFunction get_accuracy get_missclass get_topk",
        ".meshes.shardings": "Shardings",
        ".model.jax_model": "JaxModel",
        ".profiler": "JaxProfiler",
        ".running.compiled": "CompiledAnalysis compiled_analysis",
        "profilerkit.costs": "Cost Shape",
        "profilerkit_metrics": """
            ComputeComplexity ComputeEvalMetric ComputeExecutionTime ComputeFlops
            ComputeLayerwiseSummary ComputeParams ComputeSize
        """,
    }
)

install_lazy_names(__name__, _MODULES, "profilerkit[jax]")
