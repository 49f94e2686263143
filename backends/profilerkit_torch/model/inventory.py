"""The inventory of a model: its modules, layers and tensors, found in one walk."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.process.cached import cached_property
from profilerkit.process.containers import CONTAINERS

from ..compat.modules import read_buffers, read_parameters
from .attributes import list_further_attributes, list_reachable
from .keras_layers import holds_keras, is_unbuilt, list_compiled_tensors, list_written_values
from .modules import list_direct_tensors, list_layers, list_modules, list_named_parameters, list_parameters
from .storages import list_aliases, list_data_aliases
from .tensors import has_unsized

__all__ = ["Inventory", "is_lazy"]


class OwnedParameter(NamedTuple):
    """A parameter, its name, and the first module that has it: for one of Keras no module, and its whole name."""

    module: nn.Module | None
    name: str
    tensor: torch.Tensor


class _Reached(NamedTuple):
    """The values that attributes of modules lead to."""

    containers: list[Any]  #: with the ``__dict__`` of plain objects
    tensors: list[torch.Tensor]
    #: Plain objects with ``__slots__``; arrays, buffers of bytes, and generators of random numbers.
    objects: list[Any]


class Inventory:
    """The modules, layers and tensors of a model: valid for as long as none of them is replaced."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules: list[nn.Module] = list_modules(model)  #: every module once, parents first
        self.kinds: set[type[nn.Module]] = set(map(type, self.modules))  #: the classes of the modules
        self.holds_keras: bool = holds_keras(self.modules)
        #: The modules with attributes that may lead to further tensors, hooks among them, and these; see `attributes`.
        self.further_attributes: list[tuple[nn.Module, dict[str, Any]]] = list_further_attributes(
            self.modules, self.holds_keras
        )

    @classmethod
    def of(cls, model: nn.Module | Inventory) -> Inventory:
        """Return the inventory of a model; an inventory is returned as it is."""
        return model if isinstance(model, Inventory) else cls(model)

    @cached_property
    def layers(self) -> list[tuple[str, nn.Module]]:
        """Every module under every path it has, the model itself first, under the empty one."""
        return list_layers(self.model, self.holds_keras)

    @cached_property
    def scripts(self) -> list[torch.jit.ScriptModule]:
        """The scripted and traced modules."""
        return [module for module in self.modules if isinstance(module, torch.jit.ScriptModule)]

    @cached_property
    def direct_parameters(self) -> list[torch.Tensor]:
        """The parameters in the sense of torch, each once."""
        return list_direct_tensors(self.modules, read_parameters)

    @cached_property
    def direct_buffers(self) -> list[torch.Tensor]:
        """The buffers in the sense of torch, each once."""
        return list_direct_tensors(self.modules, read_buffers)

    @cached_property
    def parameters(self) -> list[torch.Tensor]:
        """The parameters, each once."""
        return list_parameters(self.model) if self.holds_keras else self.direct_parameters

    @cached_property
    def parameter_places(self) -> list[OwnedParameter]:
        """The parameters, each once, with their owners."""
        if self.holds_keras:
            return [OwnedParameter(None, name, tensor) for name, tensor in list_named_parameters(self.model)]
        owned: dict[int, OwnedParameter] = {}
        for module in self.modules:
            for name, tensor in read_parameters(module).items():
                if tensor is not None and id(tensor) not in owned:
                    owned[id(tensor)] = OwnedParameter(module, name, tensor)
        return list(owned.values())

    def find_paths(self, owned: Iterable[OwnedParameter]) -> list[tuple[str, str]]:
        """Return for each of `parameter_places` the path of its module and its name."""
        paths: dict[int, str] = {}
        for path, module in self.layers:
            paths.setdefault(id(module), path)
        return [(paths.get(id(module), ""), name) for module, name, _ in owned]

    @cached_property
    def buffers(self) -> list[torch.Tensor]:
        """The buffers, and the values that Keras layers write to while they run."""
        if not self.holds_keras:
            return self.direct_buffers
        return [*self.direct_buffers, *(value for module in self.modules for value in list_written_values(module))]

    @cached_property
    def tensors(self) -> list[torch.Tensor]:
        """The parameters, the buffers, and the tensors that other attributes of the modules lead to, each once."""
        tensors = chain(self.direct_parameters, self.direct_buffers, self.attributes)
        return list({id(tensor): tensor for tensor in tensors}.values())

    @property
    def device(self) -> torch.device:
        """Where the model is: the device of its first parameter, buffer or other tensor, the CPU where it has none."""
        tensors = self.direct_parameters or self.direct_buffers or self.attributes
        return tensors[0].device if tensors else torch.device("cpu")

    @cached_property
    def aliases(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The tensors that have values, each with another one over the same data, which it keeps from being freed."""
        return list_aliases(self.tensors)

    @cached_property
    def data_aliases(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The aliases that may become the data of their tensor again."""
        return list_data_aliases(self.aliases)

    @cached_property
    def containers(self) -> list[Any]:
        """The containers that attributes lead to, and the ``__dict__`` of plain objects, each once."""
        return self._reach.containers

    @cached_property
    def of_training(self) -> set[int]:
        """The ids of the tensors of optimizers and metrics of Keras models: a forward pass does not use them."""
        return set(map(id, list_compiled_tensors(self.modules))) if self.holds_keras else set()

    @property
    def objects(self) -> list[Any]:
        """The plain objects with ``__slots__``, arrays, buffers and random generators that attributes lead to."""
        return self._reach.objects

    @property
    def attributes(self) -> list[torch.Tensor]:
        """The tensors that attributes lead to which torch lists neither as parameters nor as buffers."""
        return self._reach.tensors

    @cached_property
    def _reach(self) -> _Reached:
        """All values that attributes lead to, without the symbolic tensors that a Keras layer keeps of its building."""
        reached = _Reached([], [], [])
        visited: dict[int, int] = {}
        for module, attributes in self.further_attributes:
            if self.holds_keras:
                visited = {}
            for value in list_reachable(attributes.values(), visited=visited):
                if isinstance(value, torch.Tensor):
                    if not (value.is_meta and self.holds_keras and is_keras(module)):
                        reached.tensors.append(value)
                elif isinstance(value, CONTAINERS):
                    reached.containers.append(value)
                elif not isinstance(value, tuple):
                    reached.objects.append(value)
        return reached


def is_lazy(model: nn.Module | Inventory) -> bool:
    """Return whether a model has parameters or buffers without a size yet, or layers that have not made theirs."""
    inventory = Inventory.of(model)
    unbuilt = inventory.holds_keras and is_unbuilt(inventory.modules)
    return unbuilt or has_unsized(inventory.parameters) or has_unsized(inventory.buffers)
