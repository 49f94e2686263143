"""The layers of a model whose tensors are spread over ranks, and which of them work is done for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn

from profilerkit.process.restoring import call_each, restored

from ..compat.modules import read_parameters
from ..model.inventory import Inventory
from ..training.training_recorder import TrainedLayers

__all__ = ["RankLayers"]


class RankLayers(TrainedLayers):
    """Follows the layers of a model that is ours, by hooks around all others: those are what spreads its tensors."""

    def __init__(self, model: nn.Module) -> None:
        self.inventory: Inventory = Inventory(model)
        super().__init__(model, self.inventory)
        #: The path of the first layer that has a parameter, by the ``id`` of the parameter.
        self._owners: dict[int, str] = {}
        for path, module in self.inventory.layers:
            for parameter in read_parameters(module).values():
                self._owners.setdefault(id(parameter), path)

    def find_owner(self, parameter: Any) -> str:
        """Return the path of the layer that has a parameter; that of the model itself for one that is no layer's."""
        return self._owners.get(id(parameter), "")

    def find_maker(self, node: Any) -> tuple[str, int]:
        """Return the path of the layer that made a node, and which call of it; the layer of a weight is its owner."""
        weight = getattr(node, "variable", None)  # of a node that adds up a weight's gradient
        return super().find_maker(node) if weight is None else (self.find_owner(weight), 0)

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Follow the calls of the model's modules."""
        stops: list[Callable[[], None]] = []
        with restored(partial(call_each, stops)):
            for module in self.inventory.modules:
                stops.append(module.register_forward_pre_hook(self._enter, prepend=True).remove)
                stops.append(module.register_forward_hook(self._leave, with_kwargs=True, always_call=True).remove)
            yield

    @contextmanager
    def work_for(self, path: str, call: int = 0) -> Iterator[None]:
        """Count what runs inside for a layer, and one of its calls."""
        outside = self.current, self.current_call
        self.current, self.current_call = path, call
        try:
            yield
        finally:
            self.current, self.current_call = outside
