"""Weights that are stored otherwise than they are counted: packed into fewer elements, with scales beside them.

Nothing is imported from the libraries that pack: their parameters and layers are known by their attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.backend_kit.call_stack import tensors_in

from ..compat import FLOAT4, dtype, read_buffers, read_parameters
from .attributes import list_reachable

__all__ = ["are_plain", "count_stored_bytes", "list_packed_weights", "logical_count", "own_buffers", "own_parameters"]

#: Where linear layers of 1 to 8 bits keep their weight: GPTQ, AWQ and EETQ; compressed-tensors; HQQ; Marlin; BitNet.
_PACKED_NAMES = ("qweight", "weight_packed", "W_q", "B", "weight")
#: What such layers call the sizes of the matrix that they stand for.
_SIZE_NAMES = (("in_features", "out_features"), ("infeatures", "outfeatures"))
#: What the parameters of bitsandbytes keep their scales in.
_SCALES = ("quant_state", "CB", "SCB")
#: How many numbers share one element.
_PER_ELEMENT = {FLOAT4: 2}
#: How many numbers share a byte in tensors that torch quantises itself, which count each number as an element.
_PER_BYTE = {dtype(name): count for name, count in (("quint4x2", 2), ("quint2x4", 4))}


#: Of these classes a tensor is just its elements; what packs them has one of its own.
_PLAIN_TYPES = (torch.Tensor, nn.Parameter)


def are_plain(module: nn.Module) -> bool:
    """Return whether no parameter of a module is kept as a buffer, or has scales."""
    for tensors in (read_parameters(module), read_buffers(module)):
        for tensor in tensors.values() if tensors else ():
            if tensor is None:
                continue
            if type(tensor) not in _PLAIN_TYPES or tensor.__dict__:
                return False
            if not tensor.is_floating_point() and _size(module):
                return False
    return True


def own_parameters(module: nn.Module) -> Iterator[tuple[str, torch.Tensor, int]]:
    """Yield name, value and logical count of a module's parameters, and of the buffers that stand for some.

    A quantised linear layer has the weight of the layer it was made of, and its bias, be they buffers now.
    """
    packed = _find_packed_name(module)
    for name, tensor in read_parameters(module).items():
        if tensor is not None:
            yield name, tensor, _size(module) if name == packed else logical_count(tensor)
    if packed is not None and packed in read_buffers(module):
        for name in (packed, "bias"):
            buffer = read_buffers(module).get(name)
            if buffer is not None:
                yield name, buffer, _size(module) if name == packed else buffer.numel()


def own_buffers(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a module's buffers that stand for no parameter, and the scales that packed parameters keep."""
    packed, buffers = _find_packed_name(module), read_buffers(module)
    taken = (packed, "bias") if packed is not None and packed in buffers else ()
    yield from ((name, tensor) for name, tensor in buffers.items() if tensor is not None and name not in taken)
    for name, tensor in (*read_parameters(module).items(), *buffers.items()):
        attributes = getattr(tensor, "__dict__", None) or {}
        for attribute in _SCALES if attributes else ():
            scales = [item for item in list_reachable([attributes.get(attribute)]) if isinstance(item, torch.Tensor)]
            yield from ((f"{name}.{attribute}.{index}", item) for index, item in enumerate(scales))


def logical_count(tensor: torch.Tensor) -> int:
    """Return how many numbers a tensor stands for: more than it has elements where several are packed into one."""
    if is_unsized(tensor):
        return 0
    # The 4-bit parameters of bitsandbytes have a state; a plain tensor has none, and takes long to find that out.
    shape = getattr(getattr(tensor, "quant_state", None), "shape", None) if type(tensor) not in _PLAIN_TYPES else None
    return math.prod(shape) if shape is not None else tensor.numel() * _PER_ELEMENT.get(tensor.dtype, 1)


def count_stored_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements: of those a sparse tensor stores, of the tensors a subclass wraps."""
    if type(tensor) in _PLAIN_TYPES and tensor.layout is torch.strided and tensor.is_floating_point():
        return tensor.numel() * tensor.element_size()
    if tensor.is_nested:
        return int(tensor.values().nbytes)
    if tensor.layout is not torch.strided and not tensor.is_mkldnn:
        return sum(getattr(tensor, name)().nbytes for name in _STORED[tensor.layout])
    if hasattr(tensor, "__tensor_flatten__"):
        return sum(count_stored_bytes(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
    return math.ceil(tensor.numel() * tensor.element_size() / _PER_BYTE.get(tensor.dtype, 1))


#: What a sparse tensor of each layout is stored as.
_BY_ROW, _BY_COLUMN = (("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values"))
_STORED: dict[torch.layout, tuple[str, ...]] = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}


def list_packed_weights(module: nn.Module) -> Iterator[tuple[str, Any, torch.Tensor]]:
    """Yield name, identity and value of the weights that a layer of torch's keeps packed, outside its parameters."""
    for name, value in module.__dict__.items():
        if isinstance(value, torch.ScriptObject) and any(kind in str(value._type()) for kind in _PACKED_KINDS):
            values = [tensor for tensor in _unpack(value) if not _is_setting(tensor)]
            yield from ((f"{name}.{index}", (id(value), index), tensor) for index, tensor in enumerate(values))


#: Linear layers, convolutions and embeddings; the cells of recurrent layers.
_PACKED_KINDS = ("PackedParams", "CellParams")


def _unpack(value: torch.ScriptObject) -> Iterator[torch.Tensor]:
    """Yield the tensors that a packed object is saved as: of a cell those of its two products, biases included."""
    state = value.__getstate__()
    inner = list(tensors_in(state, lambda item: isinstance(item, torch.ScriptObject)))
    yield from (tensor for item in inner for tensor in _unpack(item))
    if not inner:
        yield from tensors_in(state, lambda item: isinstance(item, torch.Tensor))


def _is_setting(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds strides and paddings, which convolutions pack with their weights."""
    return not (tensor.is_quantized or tensor.is_floating_point())


def _find_packed_name(module: nn.Module) -> str | None:
    """Return where a quantised linear layer keeps its weight: integers, fewer than the matrix has elements."""
    tensors = (*read_parameters(module).values(), *read_buffers(module).values())
    size = _size(module) if any(tensor is not None and _is_packed(tensor) for tensor in tensors) else 0
    for name in _PACKED_NAMES if size else ():
        tensor = read_parameters(module).get(name, read_buffers(module).get(name))
        if tensor is not None and not is_unsized(tensor) and _is_packed(tensor) and tensor.numel() <= size:
            return name
    return None


def _is_packed(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.is_quantized)


def _size(module: nn.Module) -> int:
    """Return the elements of the matrix that a linear layer stands for; 0 for a layer without such sizes."""
    for names in _SIZE_NAMES:
        sizes = [module.__dict__.get(name) for name in names]
        if all(isinstance(size, int) and size > 0 for size in sizes):
            return math.prod(sizes)  # type: ignore[arg-type]
    return 0
