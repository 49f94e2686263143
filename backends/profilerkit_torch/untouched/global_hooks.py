"""Hooks for the calls of all modules: for models that take none of their own, and to leave none in a model."""

from __future__ import annotations

from collections.abc import Callable

from torch.nn.modules.module import register_module_forward_hook

from ..compat.modules import GLOBAL_HOOK_MARKS

__all__ = ["hook_after_calls"]


def hook_after_calls(hook: Callable[..., None], *, always: bool = True) -> Callable[[], None]:
    """Have a function called after each call of any module; return what ends that.

    The function gets ``(module, args, kwargs, output)``; ``(module, args, None)`` where the call raised, which it is
    told of if ``always``.
    """
    handle = register_module_forward_hook(hook, with_kwargs=True, always_call=always)

    def stop() -> None:
        handle.remove()
        for marks in GLOBAL_HOOK_MARKS:  # torch leaves these behind
            marks.pop(handle.id, None)

    return stop
