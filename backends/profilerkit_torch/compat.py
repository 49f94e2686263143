"""The private names of torch: the only file that knows them, each with what it is for and what happens without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profilerkit.backend_kit.private_names import find

__all__ = ["is_fx_tracing"]


def _find_fx_tracing() -> Callable[[], bool]:
    """Return what tells whether torch.fx records: a function, and a flag before torch 2.8.

    Without both, a profile inside of ``torch.fx.symbolic_trace`` is not refused, and fails at its first operator.
    """
    function: Callable[[], bool] | None = find("torch.fx._symbolic_trace.is_fx_symbolic_tracing")
    if function is not None:
        return function
    module: Any = find("torch.fx._symbolic_trace")
    return lambda: bool(getattr(module, "_is_fx_tracing_flag", False))


is_fx_tracing = _find_fx_tracing()
