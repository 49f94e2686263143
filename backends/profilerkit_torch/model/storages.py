"""What a tensor is stored in: memory, other tensors over it, and the bytes and parts of packed and sparse ones."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from ..compat.tensors import FLOAT4, find_dtype, find_storage, storage_address
from .tensors import PLAIN_TYPES, list_with_values

__all__ = [
    "COMPRESSED",
    "count_numbers",
    "count_stored_bytes",
    "has_storage",
    "identify_elements",
    "list_aliases",
    "list_data_aliases",
    "list_parts",
    "read_bytes",
    "read_form",
    "storage_key",
]

#: How many elements of a tensor that is not in one piece are read.
_FEW = 4096
#: How many numbers share one element.
_PER_ELEMENT = {FLOAT4: 2}
#: How many numbers share a byte in tensors that torch quantises itself, which count each number as an element.
_PER_BYTE = {find_dtype(name): count for name, count in (("quint4x2", 2), ("quint2x4", 4))}
#: How torch quantises with a scale and a zero point for each channel.
_BY_CHANNEL = (torch.per_channel_affine, torch.per_channel_affine_float_qparams, torch.per_channel_symmetric)
#: The methods that return the parts of a sparse tensor, by its layout.
_BY_ROW, _BY_COLUMN = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
_SPARSE_PARTS: dict[torch.layout, tuple[str, ...]] = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}
#: The layouts of sparse tensors whose parts torch resizes, also those of another tensor over the same data.
COMPRESSED = frozenset(_SPARSE_PARTS) - {torch.sparse_coo}


def has_storage(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's memory is allocated: FSDP frees gathered weights, and reading them would crash."""
    if not _is_dense(tensor) or not tensor.numel():
        return True
    if tensor.is_contiguous():
        last = tensor.numel() - 1
    else:
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    return tensor.untyped_storage().nbytes() >= needed


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a plain one with a single storage: neither sparse nor nested."""
    return type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided and not tensor.is_nested


def read_bytes(tensor: torch.Tensor, most: int) -> bytes | None:
    """Return the bytes of a tensor of at most so many; None where they are not in one piece in the host's memory.

    They are read where they are: ``tensor.numpy()`` would make the tensor one that cannot be resized.
    """
    size = tensor.numel() * tensor.element_size()
    is_readable = _is_dense(tensor) and tensor.device.type == "cpu" and has_storage(tensor)
    if not is_readable or not 0 < size <= most:
        return None
    if not tensor.is_contiguous():
        return str(tensor.tolist()).encode() if tensor.numel() <= _FEW else None
    address = tensor.const_data_ptr() if hasattr(tensor, "const_data_ptr") else tensor.data_ptr()
    return ctypes.string_at(address, size) if address else None


def storage_key(tensor: torch.Tensor) -> int:
    """Return the address of the storage of a tensor; its own ``id`` where it has no single storage, as sparse ones."""
    try:
        return int(storage_address(find_storage(tensor)))
    except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
        return id(tensor)


def identify_elements(tensor: torch.Tensor) -> Any:
    """Return a key that two tensors share if they are the same numbers of one storage; None without a storage.

    Of a sparse tensor it has the keys of the tensors that it is stored as.
    """
    parts = list_parts(tensor)
    if parts:
        return tensor.shape, *map(identify_elements, parts)
    try:
        address = storage_address(tensor.untyped_storage())
        return address, tensor.storage_offset(), tensor.shape, tensor.stride(), read_form(tensor)
    except (NotImplementedError, RuntimeError):  # some that are packed
        return None


def read_form(tensor: torch.Tensor) -> tuple[torch.dtype, bool, bool]:
    """Return how torch reads the bytes of a tensor: as which numbers, their conjugates, or with the other sign."""
    return tensor.dtype, tensor.is_conj(), tensor.is_neg()


# The numbers that it stands for, and the bytes that store them --------------------------------------------------------


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
    return [getattr(tensor, name)() for name in _SPARSE_PARTS.get(tensor.layout, ())]


# Other tensors over the same data -------------------------------------------------------------------------------------


def list_aliases(tensors: Iterable[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the tensors with values, each with another one over the same data, which it keeps from being freed."""
    return [
        (tensor, _join_parts(tensor) if tensor.layout in COMPRESSED else tensor.data)
        for tensor in list_with_values(tensors)
    ]


def _join_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return a sparse tensor over the same data, whose parts keep their sizes."""
    ends, places, values = list_parts(tensor.detach())
    size, layout = tensor.shape, tensor.layout
    return torch.sparse_compressed_tensor(ends, places, values, size, layout=layout, check_invariants=False)


def list_data_aliases(
    aliases: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the aliases that may become the data of their tensor again, as those of all plain tensors may."""
    return [pair for pair in aliases if type(pair[0]) in PLAIN_TYPES or _may_be_data(*pair)]


def _may_be_data(tensor: torch.Tensor, alias: torch.Tensor) -> bool:
    """Return whether an alias is a plain tensor of the same device, dtype and layout, which may be put back.

    Any other alias (a fake tensor, a tensor on the meta device) would destroy the values.
    """
    if not (type(alias) is type(tensor) or (type(alias) is torch.Tensor and isinstance(tensor, nn.Parameter))):
        return False
    return alias.device == tensor.device and alias.dtype is tensor.dtype and alias.layout is tensor.layout
