"""The layers of a model whose tensors are spread over ranks, and which of them work is done for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from torch import nn

from profilerkit.process.restoring import call_each, restored

from ..model.inventory import Inventory
from ..training.training_recorder import TrainedLayers

__all__ = ["RankLayers"]


class RankLayers(TrainedLayers):
    """Follows the layers of a model that is ours, by hooks around all others: those are what spreads its tensors."""

    def __init__(self, model: nn.Module) -> None:
        self.inventory: Inventory = Inventory(model)
        super().__init__(model, self.inventory)

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
