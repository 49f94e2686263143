"""The numbers that a tensor stands for, and the bytes that store them, of packed, sparse and wrapped tensors too."""

from __future__ import annotations

import math

import torch
from torch.nn.parameter import is_lazy as is_unsized

from ..compat.tensors import FLOAT4, find_dtype
from .tensors import PLAIN_TYPES

__all__ = ["SPARSE_PARTS", "count_numbers", "count_stored_bytes", "list_parts"]

#: How many numbers share one element.
_PER_ELEMENT = {FLOAT4: 2}
#: How many numbers share a byte in tensors that torch quantises itself, which count each number as an element.
_PER_BYTE = {find_dtype(name): count for name, count in (("quint4x2", 2), ("quint2x4", 4))}
#: How torch quantises with a scale and a zero point for each channel.
_BY_CHANNEL = (torch.per_channel_affine, torch.per_channel_affine_float_qparams, torch.per_channel_symmetric)
#: The methods that return the parts of a sparse tensor, by its layout.
_BY_ROW, _BY_COLUMN = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
SPARSE_PARTS: dict[torch.layout, tuple[str, ...]] = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}


def count_numbers(tensor: torch.Tensor) -> int:
    """Return how many numbers a tensor stands for: more than it has elements where several are packed into one."""
    if is_unsized(tensor):
        return 0
    if type(tensor) not in PLAIN_TYPES:  # a plain tensor has no state, and takes long to find that out
        shape = getattr(getattr(tensor, "quant_state", None), "shape", None)  # of 4-bit parameters of bitsandbytes
        if shape is not None:
            return math.prod(shape)
    return tensor.numel() * _PER_ELEMENT.get(tensor.dtype, 1)


def count_stored_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor: of a sparse tensor its stored parts, of a wrapper the tensors inside it.

    The scales and zero points of channels are included.
    """
    if type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided and tensor.is_floating_point():
        return tensor.numel() * tensor.element_size()  # nearly all, and quick
    if tensor.is_nested:
        return int(tensor.values().nbytes)
    parts = list_parts(tensor)
    if not parts and hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        parts = [getattr(tensor, name) for name in names]
    if parts:
        return sum(map(count_stored_bytes, parts))
    elements = math.ceil(tensor.numel() * tensor.element_size() / _PER_BYTE.get(tensor.dtype, 1))
    if tensor.is_quantized and tensor.qscheme() in _BY_CHANNEL:
        return elements + tensor.q_per_channel_scales().nbytes + tensor.q_per_channel_zero_points().nbytes
    return elements


def list_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors that a sparse tensor is stored as; none for any other."""
    return [getattr(tensor, name)() for name in SPARSE_PARTS.get(tensor.layout, ())]
