"""Weights that are zero: the number of such elements in a model's parameters, and in one weight."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from profilerkit import NotOfferedError, WithoutValuesError
from profilerkit.errors import error_summary

from ..compat.modules import read_buffers, read_parameters
from ..compat.tensors import FLOAT4
from ..model.inventory import Inventory, is_lazy
from ..model.keras_layers import holds_keras, list_reported_weights
from ..model.modules import find_mirrors, list_modules
from ..model.storages import count_numbers
from ..model.tensors import PLAIN_TYPES, is_wrapper_class
from ..model.weights import Elements, identify_weight
from ..untouched.caller_context import apart

__all__ = ["Nonzero", "count_nonzero", "require_values", "zero_weights"]


def zero_weights(model: nn.Module) -> tuple[int, int]:
    """Return how many elements of the floating-point parameters are zero, and how many there are.

    Each element that is stored counts once, in tied parameters and in parameters that are views of one another.
    A parameter that `torch.nn.utils.prune` or `torch.ao.pruning` masks is counted after its mask is applied.
    """
    with apart():
        require_values(model)
        counts = _count_parameters(model)
    total = sum(count.total for count in counts)
    return total - sum(count.nonzero for count in counts), total


def _count_parameters(model: nn.Module) -> list[Nonzero]:
    """Return how many elements of each floating-point parameter are not zero, without elements of an earlier one."""
    parameters: dict[Any, _Parameter] = {}
    modules = list_modules(model)
    mirrors = find_mirrors(modules) if holds_keras(modules) else ()
    for module in modules:
        weights = () if id(module) in mirrors else (*read_parameters(module).items(), *list_reported_weights(module))
        for name, parameter in weights:
            if parameter is not None and (parameter.is_floating_point() or parameter.is_complex()):
                parameters[identify_weight(parameter)] = _Parameter(module, name, parameter.detach())
    views = Counter(identity.storage for identity in parameters if isinstance(identity, Elements))
    seen: dict[Any, torch.Tensor] = {}
    counts = []
    for identity, (module, name, parameter) in parameters.items():
        weight = _apply_mask(module, name, parameter)
        if isinstance(identity, Elements) and views[identity.storage] > 1 and _is_divisible(parameter):
            weight = weight[_find_unseen(identity, parameter, seen)]
        counts.append(Nonzero(_count_nonzero(weight), count_numbers(weight)))
    return counts


class _Parameter(NamedTuple):
    """A parameter with its module, and its name there."""

    module: nn.Module
    name: str
    tensor: torch.Tensor


def _is_divisible(parameter: torch.Tensor) -> bool:
    """Return whether the elements of a parameter can be selected one by one: packed elements cannot."""
    return type(parameter) in PLAIN_TYPES and parameter.dtype is not FLOAT4


def _find_unseen(identity: Elements, parameter: torch.Tensor, seen: dict[Any, torch.Tensor]) -> torch.Tensor:
    """Return which elements of a view were not seen in another view of its storage, and note that they are seen now.

    ``seen`` has by storage and size of an element which elements of the storage were seen.
    """
    length = parameter.untyped_storage().nbytes() // identity.size
    key = identity.storage, identity.size
    if key not in seen:
        seen[key] = torch.zeros(length, dtype=torch.bool, device=parameter.device)
    marks = seen[key]
    layout = parameter.shape, parameter.stride(), parameter.storage_offset()
    unseen = ~marks.as_strided(*layout)
    marks[torch.arange(length, device=parameter.device).as_strided(*layout)] = True
    return unseen


def _count_nonzero(weight: torch.Tensor) -> int:
    """Return how many elements are not zero; raises `NotOfferedError` for a class of tensors that cannot tell."""
    try:
        return count_nonzero(weight).nonzero
    except MemoryError:
        raise
    except Exception as error:
        if not is_wrapper_class(type(weight)):
            raise
        raise NotOfferedError(
            f"which elements of a {type(weight).__name__} are zero is not known: it has no dequantize(), and counting "
            f"them raised {error_summary(error)}"
        ) from error


def _apply_mask(module: nn.Module, name: str, weight: torch.Tensor) -> torch.Tensor:
    """Return a weight times its mask, if it has one.

    `torch.nn.utils.prune` has the mask of ``weight_orig`` beside it as ``weight_mask``, `torch.ao.pruning` in a
    parametrization as ``mask``.
    """
    masks = [read_buffers(module).get(f"{name.removesuffix('_orig')}_mask")] if name.endswith("_orig") else []
    if isinstance(module, ParametrizationList) and name == "original":
        masks = [read_buffers(part).get("mask") for part in module]
    for mask in masks:
        if mask is not None and mask.shape == weight.shape:
            weight = weight * mask
    return weight


def require_values(model: nn.Module) -> None:
    """Raise `WithoutValuesError` for a model with weights that have no values yet."""
    inventory = Inventory(model)
    if is_lazy(inventory) or any(tensor.is_meta for tensor in inventory.tensors):
        raise WithoutValuesError(
            "the model's weights have no values yet (they are on the meta device, or lazy): which of them are zero is "
            "not known; load or make them first"
        )


class Nonzero(NamedTuple):
    """The number of elements that are not zero, and the number of all elements."""

    nonzero: int
    total: int


def count_nonzero(weight: torch.Tensor) -> Nonzero:
    """Count the elements of a weight; only stored ones of a sparse weight, dequantized ones of a quantized weight."""
    if type(weight).dequantize is not torch.Tensor.dequantize or weight.is_quantized:  # of a class that wraps others
        weight = weight.dequantize()
    if weight.layout is torch.sparse_coo:
        weight = weight.coalesce()
    values = weight if weight.layout is torch.strided else weight.values()
    if values.dtype is FLOAT4:  # two numbers in a byte, without their signs
        pairs = values.view(torch.uint8)
        values = torch.stack((pairs & 0b111, pairs >> 4 & 0b111))
    elif values.is_floating_point() and values.element_size() == 1:  # torch does not count in these dtypes
        values = values.float()
    return Nonzero(int(torch.count_nonzero(values)), values.numel())
