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
    """Replace every tensor that the model's modules hold by ``convert(tensor)``; use inside `preserve`.

    That is parameters, buffers and plain attributes, also where they sit in a list, tuple or dict attribute (as the
    flat weights of recurrent modules do). A tensor that is held twice gets one substitute. Returns them by the
    ``id`` of the tensors that they replace.
    """
    substitutes: dict[int, torch.Tensor] = {}

    def replace(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in substitutes:
            substitutes[id(value)] = convert(value)
        return substitutes[id(value)]

    inventory = inventory or Inventory(model)
    for module, attributes in zip(inventory.modules, inventory.further_attributes, strict=True):
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError("a scripted module keeps its weights where nothing can stand in for them")
        replace_tensors(module, replace)
        for name, value in attributes.items():
            if _holds_tensors(value):
                module.__dict__[name] = map_leaves(value, replace)
        if inventory.holds_keras:
            substitute_variables(module, replace)
    return substitutes


def _holds_tensors(value: Any) -> bool:
    """Return whether a value is a tensor, or a plain container with a tensor directly in it."""
    if type(value) in (list, tuple, dict):
        items = value.values() if type(value) is dict else value
        return any(isinstance(item, torch.Tensor) for item in items)
    return isinstance(value, torch.Tensor)
