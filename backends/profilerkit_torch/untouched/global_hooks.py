"""Hooks for the calls of all modules: for models that take none of their own, and to leave none in a model."""

from __future__ import annotations

from collections.abc import Callable

from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_forward_hook

__all__ = ["hook_after_calls"]


def hook_after_calls(hook: Callable[..., None], *, always: bool = True) -> Callable[[], None]:
    """Have a function called after each call of any module; return what ends that.

    The function gets ``(module, args, kwargs, output)``; ``(module, args, None)`` where the call raised, which it is
    told of if ``always``.
    """
    handle = register_module_forward_hook(hook, with_kwargs=True, always_call=always)

    def stop() -> None:
        handle.remove()
        torch_module._global_forward_hooks_with_kwargs.pop(handle.id, None)  # torch leaves these behind
        torch_module._global_forward_hooks_always_called.pop(handle.id, None)

    return stop
