"""Layers that keep their weights otherwise than they are counted: packed into fewer elements, with scales beside them.

Nothing is imported from the libraries that pack: their parameters and layers are known by their attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.arguments.structures import tensors_in

from ..compat.files import read_script_attributes, read_script_type
from ..compat.modes import disable_dispatch_modes
from ..compat.modules import read_buffers, read_parameters
from .attributes import list_tensors

__all__ = ["is_package", "list_beside_packed", "list_own_weights", "list_packed_weights", "unpack"]

#: Where linear layers of 1 to 8 bits keep their weight, by the library that packs it.
_PACKED_NAMES = (
    "qweight",  # GPTQ, AWQ, EETQ
    "weight_packed",  # compressed-tensors
    "W_q",  # HQQ
    "B",  # Marlin
    "weight",  # BitNet
)
#: The attributes of such layers with the two sizes of the unpacked matrix.
_SIZE_NAMES = (("in_features", "out_features"), ("infeatures", "outfeatures"))
#: The attributes of bitsandbytes' parameters with scales: of 4 bits, then of 8 bits (the weight is there too).
_SCALES = ("quant_state", "CB", "SCB")
#: In the names of torch's classes in C++ of packed linear layers, convolutions, embeddings, and recurrent cells.
_PACKED_KIND = "ParamsBase"


# Parameters and buffers -----------------------------------------------------------------------------------------------


class OwnWeights(NamedTuple):
    """The parameters and buffers of a module itself, by name; None for one that is not set."""

    parameters: dict[str, Any]
    buffers: dict[str, Any]
    numbers: dict[str, int]  #: how many numbers a parameter stands for, by its name, if its value alone does not tell


def list_own_weights(module: nn.Module) -> OwnWeights:
    """Return a module's parameters and buffers as they would be without packing, and scales as further buffers.

    A linear layer of 4096 x 4096 that GPTQ has packed into 4 bits has buffers alone. Of these ``qweight``, 512 x 4096
    integers, is the parameter that stands for 16,777,216 numbers; ``qzeros``, ``scales`` and ``g_idx`` stay buffers.
    """
    weights = OwnWeights(dict(read_parameters(module)), dict(read_buffers(module)), {})
    tensors = {**weights.parameters, **weights.buffers}
    packed_name = _find_packed_name(module, tensors)
    if packed_name is not None:
        _sort_by_role(weights, packed_name)
        weights.numbers[packed_name] = _count_matrix(module)
    for name, tensor in tensors.items():
        if tensor is not None and tensor.__dict__:  # most have no attributes
            weights.buffers.update(_list_scales(name, tensor))
    for name, tensor in list_beside_packed(module).items():
        (weights.parameters if name == "bias" else weights.buffers)[name] = tensor
    return weights


def _sort_by_role(weights: OwnWeights, packed_name: str) -> None:
    """Have the packed weight and the bias of a layer be parameters, and the scales and shapes beside them buffers."""
    parameters, buffers = weights.parameters, weights.buffers
    in_products = (packed_name, "bias")
    if packed_name in buffers:  # then the bias is a buffer too
        parameters |= {name: buffers.pop(name) for name in in_products if name in buffers}
    for name, tensor in list(parameters.items()):
        if name not in in_products and tensor is not None and not tensor.requires_grad:
            buffers[name] = parameters.pop(name)


def list_beside_packed(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors that a layer keeps as plain attributes beside its packed weight.

    A layer of HQQ has its bias there, and scales and zero points in a mapping. A layer of bitsandbytes with 8 bits has
    its scales in an object after its first call.
    """
    attributes = module.__dict__
    values: dict[str, Any] = {}
    if "state" in attributes:
        values["state.SCB"] = getattr(attributes["state"], "SCB", None)
    if "W_q" in read_parameters(module) or "W_q" in read_buffers(module):
        values["bias"] = attributes.get("bias")
        scales = list_tensors([attributes.get("meta")])
        values |= {f"meta.{index}": tensor for index, tensor in enumerate(scales)}
    return {name: item for name, item in values.items() if isinstance(item, torch.Tensor)} if values else values


def _list_scales(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and value of the scales that a packed parameter keeps as attributes."""
    for attribute in _SCALES:
        for index, scale in enumerate(list_tensors([vars(tensor).get(attribute)])):
            yield f"{name}.{attribute}.{index}", scale


def _find_packed_name(module: nn.Module, tensors: Mapping[str, torch.Tensor | None]) -> str | None:
    """Return where a linear layer keeps its packed weight: at most one number for each element of the matrix."""
    for name in _PACKED_NAMES:
        tensor = tensors.get(name)
        if tensor is None or is_unsized(tensor) or not _may_pack(tensor):
            continue
        if tensor.numel() <= _count_matrix(module):
            return name
    return None


def _may_pack(tensor: torch.Tensor) -> bool:
    """Return whether a weight may be packed: integers are, and floats of 8 bits have scales beside them as well."""
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    return not tensor.is_quantized and (is_integer or tensor.element_size() == 1)


def _count_matrix(module: nn.Module) -> int:
    """Return the elements of the matrix that a linear layer stands for; 0 for a layer without such sizes."""
    for names in _SIZE_NAMES:
        inside, outside = map(module.__dict__.get, names)
        if isinstance(inside, int) and isinstance(outside, int) and inside > 0 and outside > 0:
            return inside * outside
    return 0


# Weights that torch packs itself --------------------------------------------------------------------------------------


def list_packed_weights(module: nn.Module) -> Iterator[tuple[str, Any, torch.Tensor]]:
    """Yield name, identity and value of the weights that a layer of torch's keeps packed, outside its parameters.

    The tensors are new at each call, so the identity says which weights of two layers are the same. A script makes the
    objects that pack them anew, too: each is its own.
    """
    is_script = isinstance(module, torch.jit.ScriptModule)
    for name, value in (read_script_attributes(module) if is_script else module.__dict__).items():
        for index, tensor in enumerate(unpack(value) if is_package(value) else ()):
            yield f"{name}.{index}", (id(module), name, index) if is_script else (id(value), index), tensor


def is_package(value: Any) -> bool:
    """Return whether torch packs weights in an object."""
    return isinstance(value, torch.ScriptObject) and _PACKED_KIND in read_script_type(value)


def unpack(package: torch.ScriptObject) -> list[torch.Tensor]:
    """Return the weights and biases that are in a package."""
    # The integers among them are strides and paddings, which convolutions pack with their weights.
    tensors = _read_state(package)
    return [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex() or tensor.is_quantized]


def _read_state(value: torch.ScriptObject) -> Iterator[torch.Tensor]:
    """Yield the tensors in the saved state of a packed object.

    The state of a layer has tensors. The state of a recurrent cell has the packed objects of its two products, with
    their biases, and the same biases again as tensors, which are left out.
    """
    with disable_dispatch_modes():  # it is no work of the model's
        state = value.__getstate__()
    products = list(tensors_in(state, lambda item: isinstance(item, torch.ScriptObject)))
    for product in products:
        yield from _read_state(product)
    if not products:
        yield from tensors_in(state, lambda item: isinstance(item, torch.Tensor))


def note_quantization(model: torch.nn.Module) -> Iterator[str]:
    """Yield a note where a model of transformers is built without the quantization that its configuration names.

    A model that transformers loaded quantized has its quantizer, and weights that are counted as they are stored. Any
    other model may have a ``config`` of its own, and whatever in it.
    """
    try:
        quantization = getattr(getattr(model, "config", None), "quantization_config", None)
        has_quantizer = getattr(model, "hf_quantizer", None) is not None
    except MemoryError:
        raise
    except Exception:  # of a property of the user's, which is not asked for its value otherwise
        return
    if has_quantizer:
        return
    content = quantization if isinstance(quantization, dict) else getattr(quantization, "__dict__", {})
    method = content.get("quant_method")
    method = getattr(method, "value", method)  # a member of an enumeration, or its text
    if isinstance(method, str):
        yield (
            f"the configuration of the model says that its weights are stored quantized ({method}); this model has "
            "them unquantized, and its size, memory and times are those of unquantized weights"
        )
