"""The settings of the caller around a profile of torch that change its numbers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from profilerkit.backend_kit.settings import list_changes

from ..compat.autograd import top_saved_tensors_hooks
from ..compat.compiler import is_compiled_model
from ..untouched.settings import SETTINGS

__all__ = ["conditions"]

_DEVICES = ("cpu", "cuda", "xpu", "mps")


def conditions(model: nn.Module) -> Iterator[str]:
    """Yield in words each setting that is on: autocast, hooks of saved tensors, a compiled model, global settings.

    The grad mode is not among them: a pass sets its own.
    """
    for device in _DEVICES:
        if torch.is_autocast_enabled(device):
            yield f"autocast of {device} to {torch.get_autocast_dtype(device)}"
    hooks = top_saved_tensors_hooks(False)
    if hooks is not None:
        names = " and ".join(getattr(hook, "__qualname__", type(hook).__name__) for hook in hooks[:2])
        yield f"hooks of saved tensors ({names})"
    if is_compiled_model(model):
        yield "torch.compile: the operators are counted as the model calls them, before they are fused"
    yield from list_changes(SETTINGS, counts=True)
