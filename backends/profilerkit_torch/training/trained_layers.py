"""Which call of which layer made a node of the autograd graph, so that the work of the node belongs to that layer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from profilerkit.trace.records import LayerCall

from ..compat.autograd import read_next_node_number, read_node_number
from ..compat.modules import read_parameters
from ..model.inventory import Inventory
from ..trace.layers import LayerStack

__all__ = ["TrainedLayers"]


class TrainedLayers(LayerStack):
    """Follows the layers, and knows which call of which layer made a node of the autograd graph.

    Torch numbers the nodes as they are made, so it is enough to note the number whenever a layer begins or ends.
    """

    def __init__(self, model: Any, inventory: Inventory | None = None) -> None:
        super().__init__(model, inventory)
        self._numbers = [0]
        self._calls_by_number = [(self.current, self.current_call)]
        #: The path of the first layer that has a parameter, by the ``id`` of the parameter.
        self._owners: dict[int, str] = {}

    def begin(self, layer: Any) -> None:
        """Note that a layer of the model begins."""
        super().begin(layer)
        self._mark()

    def end(self) -> None:
        """Note that the innermost layer ends."""
        super().end()
        self._mark()

    def _mark(self) -> None:
        self._numbers.append(read_next_node_number())
        self._calls_by_number.append((self.current, self.current_call))

    def note_owners(self, layers: Iterable[tuple[str, nn.Module]]) -> None:
        """Note which layer each parameter belongs to: gradients that are added up there are its work."""
        for path, module in layers:
            for parameter in read_parameters(module).values():
                self._owners.setdefault(id(parameter), path)

    def find_owner(self, parameter: Any) -> str:
        """Return the path of the layer that has a parameter; the path of the model, "", if no layer has it."""
        return self._owners.get(id(parameter), "")

    def find_maker(self, node: Any) -> tuple[str, int]:
        """Return the path of the layer that made a node, and which of its calls; the layer of a weight is its owner."""
        weight = getattr(node, "variable", None)  # of a node that adds up a weight's gradient
        if weight is not None:
            return self.find_owner(weight), 0
        return self._calls_by_number[bisect_right(self._numbers, read_node_number(node)) - 1]

    @contextmanager
    def work_for(self, path: str, call: int = 0) -> Iterator[None]:
        """Count the work inside for a layer and one of its calls."""
        outside = self.current, self.current_call
        self.current, self.current_call = path, call
        try:
            yield
        finally:
            self.current, self.current_call = outside

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Keep the calls made inside apart from the earlier calls, whose work they repeat."""
        calls = self.calls
        self.calls: dict[str, list[LayerCall]] = {}
        try:
            yield
        finally:
            self.calls = calls
