"""The weights of a layer as records: what is counted of them, what they take, and which are the same."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.trace import WeightRecord

from .modules import elements_of
from .packed import logical_count
from .packed import stored_bytes as size_of

__all__ = ["size_of", "weight_record"]


def weight_record(
    name: str,
    tensor: torch.Tensor,
    identities: dict[Any, int],
    *,
    persistent: bool = True,
    key: Any = None,
    count: int | None = None,
) -> WeightRecord:
    """Return the record of a weight.

    ``key`` is the identity of one that is no tensor of the module's own; ``count`` how many numbers it stands for,
    where the tensor alone does not say.
    """
    lazy = is_unsized(tensor)
    return WeightRecord(
        name,
        identities.setdefault(key or _identity(tensor, lazy), len(identities)),
        logical_count(tensor) if count is None else count,
        0 if lazy else size_of(tensor),
        _name_of(tensor.dtype),
        tensor.requires_grad and key is None,
        persistent,
        () if lazy else tuple(tensor.shape),
    )


@cache
def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _identity(tensor: torch.Tensor, lazy: bool) -> Any:
    """Return what two parameters share exactly where they are tied: the same elements of the same storage."""
    shared = None if lazy or tensor.numel() == 0 else elements_of(tensor)
    return id(tensor) if shared is None else shared
