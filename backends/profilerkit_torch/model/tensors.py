"""Facts of a single tensor: whether it has values and memory, which elements it has, and how many bytes store them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.process.cached import once_for_each

from ..compat.tensors import FLOAT4, find_dtype, find_storage, is_view, storage_address

__all__ = [
    "PLAIN_TYPES",
    "SPARSE_PARTS",
    "count_numbers",
    "count_stored_bytes",
    "has_graph",
    "has_own_function",
    "has_storage",
    "has_unsized",
    "have_graphs",
    "identify_elements",
    "is_wrapper_class",
    "list_aliases",
    "list_data_aliases",
    "list_parts",
    "list_with_values",
    "list_wrapped",
    "read_bytes",
    "storage_key",
    "view_like",
]

#: Classes of tensors that are just their elements; tensors that pack or wrap others have classes of their own.
PLAIN_TYPES = (torch.Tensor, nn.Parameter)


def list_with_values(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors with values that could be kept: not on the meta device, not lazy."""
    return [tensor for tensor in tensors if not (tensor.is_meta or isinstance(tensor, UninitializedTensorMixin))]


def list_aliases(tensors: Iterable[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the tensors with values, each with another one over the same data, which it keeps from being freed."""
    return [(tensor, tensor.data) for tensor in list_with_values(tensors)]


def has_unsized(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether parameters or buffers of lazy modules, which have no size yet, are among tensors."""
    return any(issubclass(kind, UninitializedTensorMixin) for kind in set(map(type, tensors)))


def has_graph(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has a graph behind it; False for views that raise when asked, as of buckets of DDP."""
    try:
        return tensor.grad_fn is not None
    except RuntimeError:
        return False


def have_graphs(tensors: Sequence[torch.Tensor]) -> list[bool]:
    """Return for each tensor whether it has a graph behind it, see `has_graph`."""
    try:
        return [tensor.grad_fn is not None for tensor in tensors]
    except RuntimeError:  # of one of them
        return list(map(has_graph, tensors))


def has_own_function(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's class answers torch's functions itself, and leaves the operators to torch."""
    kind = type(tensor)
    if kind in PLAIN_TYPES:
        return False
    function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
    return function not in _FUNCTIONS and not hasattr(kind, "__tensor_flatten__")


#: Of plain tensors, and of parameters.
_FUNCTIONS: tuple[Any, ...] = (
    vars(torch.Tensor)["__torch_function__"].__func__,
    vars(nn.Parameter)["__torch_function__"],
)


@once_for_each
def is_wrapper_class(kind: type) -> bool:
    """Return whether a class of tensors makes of each operator others, on tensors that it wraps; not so ``DTensor``."""
    return kind not in PLAIN_TYPES and hasattr(kind, "__tensor_flatten__") and not hasattr(kind, "to_local")


def list_wrapped(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors that a wrapper is made of, of wrappers inside it theirs; of any other tensor none."""
    if not is_wrapper_class(type(tensor)):
        return []
    names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    parts = [getattr(tensor, name) for name in names]
    return [inner for part in parts for inner in list_wrapped(part) or [part]]


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


#: How many elements of a tensor that is not in one piece are read.
_FEW = 4096


def storage_key(tensor: torch.Tensor) -> int:
    """Return the address of the storage of a tensor; its own ``id`` where it has no single storage, as sparse ones."""
    try:
        return int(storage_address(find_storage(tensor)))
    except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
        return id(tensor)


def identify_elements(tensor: torch.Tensor) -> Any:
    """Return a key that two tensors share if they are the same elements of one storage; None without a storage."""
    try:
        return storage_address(tensor.untyped_storage()), tensor.storage_offset(), tensor.shape, tensor.stride()
    except (NotImplementedError, RuntimeError):  # sparse tensors
        return None


def view_like(tensor: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    """Return a tensor as a view where the one that it stands for is a view, which a model may ask of its inputs."""
    return tensor.view_as(tensor) if is_view(original) else tensor


# Its numbers, and the bytes that store them ---------------------------------------------------------------------------


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
