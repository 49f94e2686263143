"""What ``torch.compile`` keeps, and whether torch records or transforms what runs: it exports, compiles or traces.

The compiler is imported where somebody compiles, and not before. profilerkit refuses to profile a model while torch
records. In a release of torch without one of these names that case is not noticed: the profile fails at its first
operator, or its operators become part of what torch records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from profilerkit.backend_kit.private_names import field, find

from .modules import COMPILED_CALL
from .names import find_first

#: Forgets what was compiled of some code; without it the compiled code stays, which costs memory alone.
forget_code: Callable[[Any], None] = find_first("torch._C._dynamo.eval_frame.reset_code", instead=lambda code: None)


def is_compiled_model(model: Any) -> bool:
    """Return whether a model is what ``torch.compile`` has made of one."""
    kind = getattr(sys.modules.get("torch._dynamo"), "OptimizedModule", None)
    return (kind is not None and isinstance(model, kind)) or getattr(model, COMPILED_CALL, None) is not None


def runs_compiled(module: Any) -> bool:
    """Return whether the calls of a module, or its forward pass alone, are compiled; else its layers are not seen."""
    return is_compiled_model(module) or hasattr(module.forward, field("_torchdynamo_orig_callable"))


#: Torch's compiler, which is imported when something is compiled, and asks for Triton then.
COMPILER = "torch._dynamo"


def is_compiler_imported() -> bool:
    """Return whether torch's compiler is imported."""
    return COMPILER in sys.modules


def save_stance() -> Callable[[], None]:
    """Return what puts back how compiled code runs, which is set for a pass; else it is the default afterwards."""
    module, name = find("torch._dynamo.eval_frame"), field("_stance")
    if hasattr(module, name):
        return partial(setattr, module, name, getattr(module, name))
    return partial(torch.compiler.set_stance, "default")


def list_compiled_codes() -> list[Any]:
    """Return the lists of code objects that the compiler keeps."""
    module = find("torch._dynamo.convert_frame")
    return [getattr(module, name, None) for name in ("input_codes", "output_codes")]


def read_compiled_states() -> dict[Any, Any]:
    """Return what the compiler remembers of the shapes that each function was called with."""
    states: dict[Any, Any] | None = getattr(find("torch._dynamo.pgo"), "_CODE_STATE", None)
    return {} if states is None else states


#: Asks whether there is Triton; without it torch is not kept from importing it where that crashes.
find_triton_question: Callable[[], Any] = lambda: find("torch.utils._triton.has_triton_package")  # noqa: E731


# Whether torch records ------------------------------------------------------------------------------------------------


_FORWARD_AD: Any = find("torch.autograd.forward_ad")
_SYMBOLIC_TRACE: Any = find("torch.fx._symbolic_trace")
_PROXY: Any = find("torch._C._TorchDispatchModeKey.PROXY")
_find_dispatch_mode: Callable[[Any], Any] = find_first("torch._C._get_dispatch_mode", instead=lambda key: None)

#: Returns how many modes of ``torch.export`` are on.
count_export_modes: Callable[[], int] = find_first(
    "torch._ops._len_torch_dispatch_stack_pre_dispatch", instead=lambda: 0
)
#: Returns what compiles the function that runs; None where nothing does.
find_compiler: Callable[[], Any] = find_first(
    "torch._C._dynamo.eval_frame.get_eval_frame_callback", instead=lambda: None
)
#: Returns how many transforms of ``torch.func`` are on; None where none is.
find_transform_level: Callable[[], Any] = find_first(
    "torch._C._functorch.maybe_current_level", "torch._C._functorch.peek_interpreter_stack", instead=lambda: None
)
#: Returns whether ``torch.fx.symbolic_trace`` records: by a function of torch's, and before torch 2.8 by a flag.
is_fx_tracing: Callable[[], bool] = find_first(
    "torch.fx._symbolic_trace.is_fx_symbolic_tracing",
    instead=lambda: bool(getattr(_SYMBOLIC_TRACE, "_is_fx_tracing_flag", False)),
)


def is_forward_ad_active() -> bool:
    """Return whether tensors may carry their derivatives along."""
    return int(getattr(_FORWARD_AD, "_current_level", -1)) >= 0


def is_making_graph() -> bool:
    """Return whether ``make_fx`` records."""
    return _PROXY is not None and _find_dispatch_mode(_PROXY) is not None
