"""Where torch records or transforms what runs: no model can be profiled inside of that."""

from __future__ import annotations

import torch

from profilerkit import TracingError

from ..compat.recordings import find_compiler, find_transform_level, is_fx_tracing, is_making_graph

__all__ = ["require_no_tracing"]

_MESSAGE = (
    "a model cannot be profiled inside {where}: torch records there what runs, the passes of profilerkit would become "
    "part of the recording, and the model would be run on tensors without values; profile it before or after, outside "
    "of {what}"
)


def require_no_tracing() -> None:
    """Raise `TracingError` where torch records or transforms what runs, instead of just running it."""
    if torch.compiler.is_compiling() and torch.compiler.is_exporting():
        where, what = "torch.export", "the exported forward"
    elif torch.compiler.is_compiling() or find_compiler():
        where, what = "a function that torch.compile compiles", "the compiled function"
    elif torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
        where, what = "torch.jit.trace", "the traced function"
    elif is_fx_tracing() or is_making_graph():
        where, what = "torch.fx.symbolic_trace or make_fx", "the traced function"
    elif find_transform_level() is not None:
        where, what = "torch.func.vmap, grad or another transform of torch.func", "the transformed function"
    elif torch.cuda.is_initialized() and _is_capturing():
        where, what = "the capture of a CUDA graph", "the capture"
    else:
        return
    raise TracingError(_MESSAGE.format(where=where, what=what))


def _is_capturing() -> bool:
    """Return whether a CUDA graph is captured; not where a kernel has failed: this process can use the GPU no more."""
    try:
        return bool(torch.cuda.is_current_stream_capturing())
    except RuntimeError:
        return False
