"""What torch records or transforms at the moment: no model is profiled inside of that.

Without one of these names a profile there is not refused, and fails at its first operator, or becomes part of the
recording; elsewhere all is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from profilerkit.backend_kit.private_names import find

from .names import find_first

#: How many modes of ``torch.export`` are on; none, where that is not known: a profile inside of an export is refused.
count_export_modes: Callable[[], int] = find_first(
    "torch._ops._len_torch_dispatch_stack_pre_dispatch", instead=lambda: 0
)

#: What compiles the function that runs.
compiler_callback: Callable[[], Any] = find_first(
    "torch._C._dynamo.eval_frame.get_eval_frame_callback", instead=lambda: None
)
#: How deep in transforms of ``torch.func`` this is: None outside of all.
transform_level: Callable[[], Any] = find_first(
    "torch._C._functorch.maybe_current_level", "torch._C._functorch.peek_interpreter_stack", instead=lambda: None
)
_forward_ad: Any = find("torch.autograd.forward_ad")


def is_forward_ad_active() -> bool:
    """Return whether tensors may carry their derivatives along; where torch does not tell, they never do."""
    return int(getattr(_forward_ad, "_current_level", -1)) >= 0


_fx_module: Any = find("torch.fx._symbolic_trace")
#: Whether ``torch.fx.symbolic_trace`` records: a function, and before torch 2.8 a flag.
is_fx_tracing: Callable[[], bool] = find_first(
    "torch.fx._symbolic_trace.is_fx_symbolic_tracing",
    instead=lambda: bool(getattr(_fx_module, "_is_fx_tracing_flag", False)),
)
_dispatch_mode: Callable[[Any], Any] = find_first("torch._C._get_dispatch_mode", instead=lambda key: None)
_PROXY: Any = find("torch._C._TorchDispatchModeKey.PROXY")


def is_making_graph() -> bool:
    """Return whether ``make_fx`` records."""
    return _PROXY is not None and _dispatch_mode(_PROXY) is not None


_profiler_module: Any = find("torch.autograd.profiler")


def _has_flag() -> bool:
    """Return what torch notes in Python of whether its profiler runs."""
    return bool(getattr(_profiler_module, "_is_profiler_enabled", False))


_in_c: Callable[[], bool] = find_first("torch._C._autograd._profiler_enabled", instead=_has_flag)


#: The two parts of a session's beginning; without them a session that an error has kept from it stays as it is.
_prepare_session: Callable[[Any], None] = find_first(
    "torch.autograd.profiler.profile._prepare_trace", instead=lambda session: None
)
_begin_session: Callable[[Any], None] = find_first(
    "torch.autograd.profiler.profile._start_trace", instead=lambda session: None
)


def is_profiler_enabled() -> bool:
    """Return whether torch's profiler runs, of which there is one; where that is not known torch itself refuses."""
    return _in_c() or _has_flag()


def stop_session(session: Any) -> None:
    """End a session of torch's profiler; one that has not begun, or has ended, is left as it is.

    An error may be raised between its end and torch's note of that, which another call then makes. After a session that
    was prepared and has not begun, torch up to 2.10 begins no other one: such a session is begun, to be ended.
    """
    inner = session.profiler
    if not _in_c() and inner is not None and inner.entered and inner.kineto_results is None:
        with suppress(RuntimeError):  # it is prepared
            _prepare_session(inner)
        _begin_session(inner)
    if _in_c():
        session.__exit__(None, None, None)
    if _has_flag():
        _profiler_module._is_profiler_enabled = False
