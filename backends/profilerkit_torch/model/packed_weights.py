"""Layers that keep their weights otherwise than they are counted: packed into fewer elements, with scales beside them.

Nothing is imported from the libraries that pack: their parameters and layers are known by their attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.backend_kit.call_stack import tensors_in

from ..compat.files import read_script_type
from ..compat.modules import read_buffers, read_parameters
from .attributes import list_reachable

__all__ = ["OwnWeights", "list_own_weights", "list_packed_weights"]

#: Where linear layers of 1 to 8 bits keep their weight: GPTQ, AWQ and EETQ; compressed-tensors; HQQ; Marlin; BitNet.
_PACKED_NAMES = ("qweight", "weight_packed", "W_q", "B", "weight")
#: What such layers call the sizes of the matrix that they stand for.
_SIZE_NAMES = (("in_features", "out_features"), ("infeatures", "outfeatures"))
#: What the parameters of bitsandbytes keep their scales in.
_SCALES = ("quant_state", "CB", "SCB")
#: What torch packs itself: linear layers, convolutions and embeddings; the cells of recurrent layers.
_PACKED_KINDS = ("PackedParams", "CellParams")


# Parameters and buffers -----------------------------------------------------------------------------------------------


class OwnWeights(NamedTuple):
    """What a module has itself.

    Attributes:
        parameters: Name, value, and how many numbers it stands for, where the value alone does not tell.
        buffers: Name and value.
    """

    parameters: list[tuple[str, torch.Tensor, int | None]]
    buffers: list[tuple[str, torch.Tensor]]


def list_own_weights(module: nn.Module) -> OwnWeights:
    """Return a module's parameters, with the buffers that stand for some; and its other buffers, with scales.

    A quantised linear layer has the weight of the layer it was made of, and its bias, be they buffers now. The scales
    are those that packed parameters keep.
    """
    parameters = {name: tensor for name, tensor in read_parameters(module).items() if tensor is not None}
    buffers = {name: tensor for name, tensor in read_buffers(module).items() if tensor is not None}
    tensors = {**parameters, **buffers}
    scales = [scale for name, tensor in tensors.items() if tensor.__dict__ for scale in _list_scales(name, tensor)]
    size = _count_matrix(module)
    packed = _find_packed_name(tensors, size) if size else None
    if packed in buffers:
        parameters |= {name: buffers.pop(name) for name in (packed, "bias") if name in buffers}
    counted = [(name, tensor, size if name == packed else None) for name, tensor in parameters.items()]
    return OwnWeights(counted, [*buffers.items(), *scales])


def _list_scales(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and value of the scales that a packed parameter keeps as attributes."""
    for attribute in _SCALES:
        scales = [item for item in list_reachable([vars(tensor).get(attribute)]) if isinstance(item, torch.Tensor)]
        for index, scale in enumerate(scales):
            yield f"{name}.{attribute}.{index}", scale


def _find_packed_name(tensors: Mapping[str, torch.Tensor], size: int) -> str | None:
    """Return where a quantised linear layer keeps its weight: integers, fewer than the matrix has elements."""
    for name in _PACKED_NAMES:
        tensor = tensors.get(name)
        if tensor is not None and not is_unsized(tensor) and _is_packed(tensor) and tensor.numel() <= size:
            return name
    return None


def _is_packed(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.is_quantized)


def _count_matrix(module: nn.Module) -> int:
    """Return the elements of the matrix that a linear layer stands for; 0 for a layer without such sizes."""
    for names in _SIZE_NAMES:
        inside, outside = map(module.__dict__.get, names)
        if isinstance(inside, int) and isinstance(outside, int) and inside > 0 and outside > 0:
            return inside * outside
    return 0


# What torch packs itself ----------------------------------------------------------------------------------------------


def list_packed_weights(module: nn.Module) -> Iterator[tuple[str, Any, torch.Tensor]]:
    """Yield name, identity and value of the weights that a layer of torch's keeps packed, outside its parameters."""
    for name, value in module.__dict__.items():
        if isinstance(value, torch.ScriptObject) and any(kind in read_script_type(value) for kind in _PACKED_KINDS):
            weights = [tensor for tensor in _unpack(value) if not _is_setting(tensor)]
            for index, tensor in enumerate(weights):
                yield f"{name}.{index}", (id(value), index), tensor


def _unpack(value: torch.ScriptObject) -> Iterator[torch.Tensor]:
    """Yield the tensors that a packed object is saved as: of a cell those of its two products, biases included."""
    state = value.__getstate__()
    inner = list(tensors_in(state, lambda item: isinstance(item, torch.ScriptObject)))
    for item in inner:
        yield from _unpack(item)
    if not inner:
        yield from tensors_in(state, lambda item: isinstance(item, torch.Tensor))


def _is_setting(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds strides and paddings, which convolutions pack with their weights."""
    return not (tensor.is_quantized or tensor.is_floating_point())
