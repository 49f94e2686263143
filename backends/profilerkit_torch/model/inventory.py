"""What a model holds, found in one walk that everything else about a trace can go by."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.backend_kit.keras_layers import is_keras
from profilerkit.process.cached import cached_property

from .keras_layers import holds_keras, is_unbuilt, training_tensors
from .modules import CONTAINERS, buffers_of, modules_of, named_layers, others, parameters_of, reached
from .tensors import has_values, is_twin

__all__ = ["Inventory", "is_lazy"]


class Inventory:
    """The modules, layers and tensors of a model: true for as long as nothing is put in their place."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        #: Every module once, parents first.
        self.modules = modules_of(model)
        #: For each module the attributes that may lead to further tensors; see `modules.others`.
        self.others: list[dict[str, Any]] = [others(module) for module in self.modules]
        self.holds_keras = holds_keras(self.modules)

    def others_of(self, module: nn.Module) -> dict[str, Any]:
        """Return those of a module's attributes that are no plain values."""
        return self.others[self._places[id(module)]]

    def is_bare(self, module: nn.Module) -> bool:
        """Say whether a module owns no tensors, and nothing that could lead to any."""
        return not (module._parameters or module._buffers or self.holds_keras or self.others_of(module))

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(module): place for place, module in enumerate(self.modules)}

    @cached_property
    def layers(self) -> list[tuple[str, nn.Module]]:
        """Every module under every path it has, the model itself first, under the empty one."""
        return list(named_layers(self.model))

    @cached_property
    def parameters(self) -> list[torch.Tensor]:
        """The parameters, each once."""
        return parameters_of(self.model) if self.holds_keras else self._own("_parameters")

    @cached_property
    def buffers(self) -> list[torch.Tensor]:
        """The buffers, and what Keras' layers write to while they run."""
        return buffers_of(self.model) if self.holds_keras else self._own("_buffers")

    def _own(self, where: str) -> list[torch.Tensor]:
        held = (tensor for module in self.modules for tensor in getattr(module, where).values() if tensor is not None)
        return list({id(tensor): tensor for tensor in held}.values())

    @cached_property
    def tensors(self) -> list[torch.Tensor]:
        """The parameters, the buffers, and the tensors that other attributes of the modules lead to, each once."""
        own = (*self._own("_parameters"), *self._own("_buffers"), *self.attributes)
        return list({id(tensor): tensor for tensor in own}.values())

    @cached_property
    def aliases(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The tensors that have values, each with another one over the same data, which it keeps from being freed."""
        return [(tensor, tensor.data) for tensor in self.tensors if has_values(tensor)]

    @cached_property
    def twins(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Those of the aliases that may be given to their tensor as its data: all but what torch makes no twin of."""
        return [(tensor, alias) for tensor, alias in self.aliases if is_twin(tensor, alias)]

    @cached_property
    def containers(self) -> list[Any]:
        """What the attributes lead to beside tensors: containers, and the ``__dict__`` of plain objects, each once."""
        return self._reached[0]

    @cached_property
    def of_training(self) -> set[int]:
        """The ids of what optimizers and metrics of Keras models hold: a forward pass needs none of it."""
        return set(map(id, training_tensors(self.modules))) if self.holds_keras else set()

    @property
    def objects(self) -> list[Any]:
        """The plain objects with ``__slots__`` that attributes lead to."""
        return self._reached[2]

    @property
    def attributes(self) -> list[torch.Tensor]:
        """The tensors that attributes lead to which are not parameters or buffers by torch's own books."""
        return self._reached[1]

    @cached_property
    def _reached(self) -> tuple[list[Any], list[torch.Tensor], list[Any]]:
        """Containers, tensors and objects with slots.

        Not what a Keras layer keeps of the symbolic call that Keras builds it by.
        """
        others: list[Any] = []
        tensors: list[torch.Tensor] = []
        met: dict[int, int] = {}
        for module, attributes in zip(self.modules, self.others, strict=True):
            for value in reached(attributes, met={} if self.holds_keras else met) if attributes else ():
                if not isinstance(value, torch.Tensor):
                    others.append(value)
                elif not (value.is_meta and self.holds_keras and is_keras(module)):
                    tensors.append(value)
        containers = [found for found in others if isinstance(found, CONTAINERS)]
        return containers, tensors, [found for found in others if not isinstance(found, (*CONTAINERS, tuple))]


def is_lazy(model: nn.Module | Inventory) -> bool:
    """Say whether the model has parameters or buffers that no forward pass has sized yet, or layers without theirs."""
    held = model if isinstance(model, Inventory) else Inventory(model)
    unbuilt = held.holds_keras and is_unbuilt(held.modules)
    return unbuilt or any(map(is_unsized, held.parameters)) or any(map(is_unsized, held.buffers))
