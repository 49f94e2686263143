"""The LiteRT backend of profilerkit: models of ``.tflite`` files.

Names are imported when they are first used: the plugin must be found if LiteRT is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit.process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from .backend import LiteRTBackend
    from .costs import LiteRTCall, register_op_cost
    from .evaluation import EvalLossFunction, get_accuracy, get_missclass, get_topk
    from .model.reading import LiteRTModel, open_model
    from .profiler import LiteRTProfiler

__all__ = [
    "EvalLossFunction",
    "LiteRTBackend",
    "LiteRTCall",
    "LiteRTModel",
    "LiteRTProfiler",
    "get_accuracy",
    "get_missclass",
    "get_topk",
    "open_model",
    "register_op_cost",
]

#: The module of each name. A test compares this with the imports above and with `__all__`.
_MODULES = module_of_each(
    {
        ".backend": "LiteRTBackend",
        ".costs": "LiteRTCall register_op_cost",
        ".evaluation": "EvalLossFunction get_accuracy get_missclass get_topk",
        ".model.reading": "LiteRTModel open_model",
        ".profiler": "LiteRTProfiler",
    }
)

install_lazy_names(__name__, _MODULES, "profilerkit[litert]")
