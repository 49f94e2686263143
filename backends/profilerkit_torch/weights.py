"""The weights of a layer as records: what is counted of them, what they take, and which are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.layering import tensors_in
from profilerkit.trace import WeightRecord

from .modules import elements_of

__all__ = ["packed_weights", "size_of", "weight_record"]


def packed_weights(module: nn.Module) -> Iterator[tuple[str, Any, torch.Tensor]]:
    """Yield name, identity and value of the weights that a quantised module keeps packed, outside its parameters."""
    for name, value in module.__dict__.items():
        if isinstance(value, torch.ScriptObject) and "PackedParams" in str(value._type()):
            values = [tensor for tensor in tensors_in(value.__getstate__(), _is_tensor) if not _is_setting(tensor)]
            yield from ((f"{name}.{index}", (id(value), index), tensor) for index, tensor in enumerate(values))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_setting(tensor: torch.Tensor) -> bool:
    """Say whether a tensor holds strides and paddings, which convolutions pack with their weights."""
    return not (tensor.is_quantized or tensor.is_floating_point())


def weight_record(
    name: str, tensor: torch.Tensor, identities: dict[Any, int], *, persistent: bool = True, key: Any = None
) -> WeightRecord:
    """Return the record of a weight; ``key`` is the identity of one that is no tensor of the module's own."""
    lazy = is_unsized(tensor)
    return WeightRecord(
        name=name,
        identity=identities.setdefault(key or _identity(tensor, lazy), len(identities)),
        count=0 if lazy else tensor.numel(),
        bytes=0 if lazy else size_of(tensor),
        dtype=str(tensor.dtype).removeprefix("torch."),
        trainable=tensor.requires_grad and key is None,
        persistent=persistent,
    )


def size_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements: of those a sparse tensor stores, of the tensors a subclass wraps."""
    if tensor.layout is not torch.strided:
        return sum(getattr(tensor, name)().nbytes for name in _STORED[tensor.layout])
    if hasattr(tensor, "__tensor_flatten__"):
        return sum(size_of(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
    return tensor.numel() * tensor.element_size()


#: What a sparse tensor of each layout is stored as.
_BY_ROW, _BY_COLUMN = (("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values"))
_STORED: dict[torch.layout, tuple[str, ...]] = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}


def _identity(tensor: torch.Tensor, lazy: bool) -> Any:
    """Return what two parameters share exactly where they are tied: the same elements of the same storage."""
    shared = None if lazy or tensor.numel() == 0 else elements_of(tensor)
    return id(tensor) if shared is None else shared
