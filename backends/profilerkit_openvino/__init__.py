"""The OpenVINO backend of profilerkit. Names are imported when they are first used: openvino may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from .backend import OpenvinoBackend
    from .costs import Call, register_op_cost
    from .evaluation import EvalLossFunction, get_accuracy, get_missclass, get_topk
    from .profiler import OpenvinoProfiler

__all__ = [
    "Call",
    "EvalLossFunction",
    "OpenvinoBackend",
    "OpenvinoProfiler",
    "get_accuracy",
    "get_missclass",
    "get_topk",
    "register_op_cost",
]

#: The module of each name. A test compares this with the imports above and with `__all__`.
_MODULES = module_of_each(
    {
        ".backend": "OpenvinoBackend",
        ".costs": "Call register_op_cost",
        ".evaluation": "EvalLossFunction get_accuracy get_missclass get_topk",
        ".profiler": "OpenvinoProfiler",
    }
)

install_lazy_names(__name__, _MODULES, "profilerkit[openvino]")
