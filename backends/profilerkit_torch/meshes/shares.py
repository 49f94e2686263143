"""The share of one rank in tensors that are spread over several, and the bytes of tensors."""

from __future__ import annotations

from collections.abc import Iterable

import torch

__all__ = ["count_bytes", "find_share"]


def find_share(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a tensor that this rank has, without its graph: all of a tensor that is not spread."""
    with torch.no_grad():
        return tensor.to_local() if hasattr(tensor, "to_local") else tensor.detach()


def count_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the elements of tensors."""
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors)
