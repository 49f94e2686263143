"""What the tests of the PyTorch backend share: tiny models, and a trace in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs, ModelTrace
from profilerkit_torch import TorchBackend

BACKEND = TorchBackend()


class Call(nn.Module):
    """Runs a function of itself and its inputs, over the modules, weights and other attributes it is given by name."""

    def __init__(self, function: Callable[..., Any], **attributes: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


class ByValue(torch.autograd.Function):
    """Its gradient depends on values that come of the weights, so that only a real run can make it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] * float(ctx.saved_tensors[0].mean().item())


def trace(model: nn.Module, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace one call of the model."""
    return BACKEND.trace(model, ModelInputs(*args, **kwargs))


def trace_complete(model: nn.Module, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace one call of the model, which must neither fail nor leave anything uncounted."""
    found = trace(model, *args, **kwargs)
    assert found.failure is None, found.failure
    assert found.missing == ()
    return found


def step(model: nn.Module, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace a training step of the model, which must not fail."""
    found = BACKEND.trace_training(model, ModelInputs(*args, **kwargs))
    assert found.failure is None, found.failure
    assert sum(row["own_macs"] for row in found.table) == found.macs
    assert sum(row["own_flops"] for row in found.table) == found.flops
    return found


def trace_complete_step(model: nn.Module, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace a training step that must leave nothing uncounted either."""
    found = step(model, *args, **kwargs)
    assert found.missing == ()
    return found


def cost(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[int, int]:
    """Return MACs and FLOPs of a function of tensors."""
    found = trace_complete(Call(lambda self, *a, **k: function(*a, **k)), *args, **kwargs)
    return found.macs, found.flops


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype)
