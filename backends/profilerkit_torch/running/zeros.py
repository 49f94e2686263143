"""Weights that are zero: how many there are."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from profilerkit import NotOfferedError, WithoutValuesError
from profilerkit.errors import error_summary

from ..compat.modules import read_buffers, read_parameters
from ..model.inventory import Inventory, is_lazy
from ..model.keras_layers import holds_keras, list_reported_weights
from ..model.modules import find_mirrors, list_modules
from ..model.tensors import is_wrapper_class
from ..untouched.caller_context import apart
from .nonzero_work import Nonzero, count_nonzero

__all__ = ["require_values", "zero_weights"]


def zero_weights(model: nn.Module) -> tuple[int, int]:
    """Return how many elements of the floating-point parameters are zero, and how many there are; tied ones once.

    Of a parameter that `torch.nn.utils.prune` or `torch.ao.pruning` masks it is what the mask leaves.
    """
    with apart():
        require_values(model)
        counts = _count_parameters(model)
    total = sum(count.total for count in counts)
    return total - sum(count.nonzero for count in counts), total


def _count_parameters(model: nn.Module) -> Collection[Nonzero]:
    """Return how many elements of each floating-point parameter are not zero; tied ones are counted once."""
    counts: dict[int, Nonzero] = {}
    modules = list_modules(model)
    mirrors = find_mirrors(modules) if holds_keras(modules) else ()
    for module in modules:
        weights = () if id(module) in mirrors else (*read_parameters(module).items(), *list_reported_weights(module))
        for name, parameter in weights:
            if parameter is not None and (parameter.is_floating_point() or parameter.is_complex()):
                weight = _apply_mask(module, name, parameter.detach())
                counts[id(parameter)] = Nonzero(_count_nonzero(weight), weight.numel())
    return counts.values()


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
    """Return what a mask leaves of a weight.

    `torch.nn.utils.prune` has that of ``weight_orig`` beside it as ``weight_mask``, `torch.ao.pruning` in a
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
