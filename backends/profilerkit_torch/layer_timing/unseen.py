"""Layers whose single calls cannot be seen from Python, and why."""

from __future__ import annotations

import torch
from torch import nn

from ..compat.compiler import runs_compiled
from ..model.modules import list_modules

__all__ = ["find_unseen_layers"]


def find_unseen_layers(model: nn.Module) -> dict[int, str]:
    """Return by its ``id`` each module that runs where its calls are not seen, with the reason in words."""
    unseen: dict[int, str] = {}
    for module in list_modules(model):
        where = _runs_unseen(module)
        if where:
            reason = f"it runs {where}, which has the time: single layers are not told apart there"
            unseen.update((id(inner), reason) for inner in list_modules(module)[1:])
    return unseen


def _runs_unseen(module: nn.Module) -> str:
    """Return where the modules inside a module run; an empty text where their calls are seen."""
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        return f"inside TorchScript ({name})"
    if runs_compiled(module):
        return f"inside what torch.compile has compiled ({name})"
    if isinstance(module, nn.DataParallel) and len(module.device_ids) > 1:
        return f"as a copy in the threads of {name}"
    return ""
