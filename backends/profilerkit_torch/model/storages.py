"""The storage of a tensor: whether its memory is allocated, its address, and its bytes."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ..compat.tensors import find_storage, storage_address
from .tensors import PLAIN_TYPES

__all__ = ["has_storage", "identify_elements", "read_bytes", "read_form", "storage_key"]

#: How many elements of a tensor that is not in one piece are read.
_FEW = 4096


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
    """Return a key that two tensors share if they are the same numbers of one storage; None without a storage."""
    try:
        address = storage_address(tensor.untyped_storage())
        return address, tensor.storage_offset(), tensor.shape, tensor.stride(), read_form(tensor)
    except (NotImplementedError, RuntimeError):  # sparse tensors
        return None


def read_form(tensor: torch.Tensor) -> tuple[torch.dtype, bool, bool]:
    """Return how torch reads the bytes of a tensor: as which numbers, their conjugates, or with the other sign."""
    return tensor.dtype, tensor.is_conj(), tensor.is_neg()
