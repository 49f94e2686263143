"""Other tensors in the places of a model's own: on another device, without values, or of another graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from profilerkit.arguments.structures import map_leaves

from ..compat.modules import replace_tensors
from ..model.inventory import Inventory
from ..model.keras_preparation import substitute_variables

__all__ = ["substitute"]


def substitute(
    model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor], inventory: Inventory | None = None
) -> dict[int, torch.Tensor]:
    """Replace every tensor that the model's modules hold by ``convert(tensor)``, inside `preserve`, which undoes it.

    That is parameters, buffers and plain attributes, also directly in a list, tuple or dict attribute (as the flat
    weights of recurrent modules are). A tensor that is held twice gets one substitute. Returns the substitutes by the
    ``id`` of the tensors that they replace.
    """
    inventory = inventory or Inventory(model)
    if inventory.scripts:
        raise TypeError("a scripted module keeps its weights where nothing can stand in for them")
    direct = (*inventory.direct_parameters, *inventory.direct_buffers)
    substitutes = {id(tensor): convert(tensor) for tensor in direct}

    def replace(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in substitutes:
            substitutes[id(value)] = convert(value)
        return substitutes[id(value)]

    replace_tensors(inventory.modules, substitutes)
    for module in inventory.modules if inventory.holds_keras else ():
        substitute_variables(module, replace)
    for module, attributes in inventory.further_attributes:
        for name, value in attributes.items():
            if _holds_tensors(value):
                module.__dict__[name] = map_leaves(value, replace)
    return substitutes


def _holds_tensors(value: Any) -> bool:
    """Return whether a value is a tensor, or a plain container with a tensor directly in it."""
    if isinstance(value, torch.Tensor):
        return True
    if type(value) is dict:
        return any(isinstance(item, torch.Tensor) for item in value.values())
    return type(value) in (list, tuple) and any(isinstance(item, torch.Tensor) for item in value)
