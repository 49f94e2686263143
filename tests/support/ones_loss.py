"""A loss for measurements of memory: its gradient is made in the backward pass, so that nobody holds it once used."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["go_back"]


class _OnesLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: torch.Tensor) -> torch.Tensor:
        ctx.shape = output.shape
        return output.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.ones(ctx.shape)


def go_back(output: torch.Tensor) -> None:
    """Run the backward pass of an output, from ones of its size."""
    _OnesLoss.apply(output).backward()  # type: ignore[no-untyped-call]
