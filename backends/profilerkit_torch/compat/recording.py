"""Checks whether torch records or transforms running code: it exports, compiles, traces, or differentiates forward.

profilerkit refuses to profile a model while torch records. In a release without one of these names the recording is not
noticed: the profile fails at its first operator, or its operators become part of the recording.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profilerkit.backend_kit.private_names import find

from .names import find_first

_FORWARD_AD: Any = find("torch.autograd.forward_ad")
_SYMBOLIC_TRACE: Any = find("torch.fx._symbolic_trace")
_PROXY: Any = find("torch._C._TorchDispatchModeKey.PROXY")
_find_dispatch_mode: Callable[[Any], Any] = find_first("torch._C._get_dispatch_mode", instead=lambda key: None)

#: Returns how many modes of ``torch.export`` are on.
count_export_modes: Callable[[], int] = find_first(
    "torch._ops._len_torch_dispatch_stack_pre_dispatch", instead=lambda: 0
)
#: Returns the compiler of the function that runs; None if there is none.
find_compiler: Callable[[], Any] = find_first(
    "torch._C._dynamo.eval_frame.get_eval_frame_callback", instead=lambda: None
)
#: Returns how many transforms of ``torch.func`` are on; None if none is.
find_transform_level: Callable[[], Any] = find_first(
    "torch._C._functorch.maybe_current_level", "torch._C._functorch.peek_interpreter_stack", instead=lambda: None
)
#: Returns whether ``torch.fx.symbolic_trace`` records: by a function of torch, and before torch 2.8 by a flag.
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
