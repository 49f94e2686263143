"""Programs that ``torch.export`` made: as modules again, with the layers of the model that they were made from."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["is_program", "layered"]


def is_program(model: Any) -> bool:
    """Say whether something is an exported program."""
    return isinstance(model, torch.export.ExportedProgram)


def layered(program: torch.export.ExportedProgram) -> nn.Module:
    """Return an exported program as a module of its layers, which shares the weights of the program.

    A call with inputs that the program was not exported for raises, and says which ones it takes.
    """
    about = program.graph_module.meta
    before = dict(about)
    try:
        with warnings.catch_warnings(), torch.no_grad(), _Sharing():  # type: ignore[no-untyped-call]
            warnings.filterwarnings("ignore", category=FutureWarning, message=r"`isinstance\(treespec")  # torch's own
            return torch.export.unflatten(program)
    finally:
        about.clear()
        about.update(before)


class _Sharing(TorchDispatchMode):
    """Has what would copy a tensor return another one of the same elements."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0].detach() if func is torch.ops.aten.clone.default else func(*args, **(kwargs or {}))
