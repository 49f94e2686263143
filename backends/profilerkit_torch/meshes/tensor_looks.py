"""What a tensor is without its values."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

__all__ = ["TensorLook", "look_at"]


class TensorLook(NamedTuple):
    """What a tensor is without its values; ``spread`` says how it is spread over ranks, if it is."""

    kind: type
    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    is_trained: bool
    spread: Any


def look_at(tensor: torch.Tensor) -> TensorLook:
    """Return what a tensor is without its values."""
    spread = getattr(tensor, "placements", None), getattr(tensor, "device_mesh", None)
    return TensorLook(type(tensor), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, spread)
