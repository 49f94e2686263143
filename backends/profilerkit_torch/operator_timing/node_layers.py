"""The layer of each event of the profiler.

A node of the gradient's graph has the number that the graph's sequence had when the operator that made it began: the
layer of the operator is the layer of the node. A node that adds to a parameter's gradient has no number; it runs right
after the node that computes this gradient, and gets the layer of that node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from .events import EventKind, Frame

__all__ = ["NodeMakers", "assign_layers"]


def assign_layers(frames: Iterable[Frame], outside: Callable[[Hashable], str | None]) -> None:
    """Give each event the layer that it runs in, and each node the layer of the operator that made it.

    Args:
        frames: The events in order of time.
        outside: Returns the layer of events that run in a thread outside of all layers.
    """
    makers: defaultdict[Hashable, NodeMakers] = defaultdict(NodeMakers)
    last_nodes: dict[Hashable, str] = {}  # by thread, the layer of the last node
    for frame in frames:
        event, outer = frame.event, frame.outer
        if event.kind is EventKind.LAYER:
            frame.layer = event.name
        elif event.kind is EventKind.NODE and not frame.is_inner_node:
            if event.number >= 0:
                last_nodes[event.thread] = makers[event.forward_thread].find_layer(event.number) or ""
            frame.layer = last_nodes.setdefault(event.thread, "")
        else:
            frame.layer = outside(event.thread) if outer is None else outer.layer
            if event.kind is EventKind.OPERATOR and event.number >= 0:
                makers[event.thread].add(event.number, frame.layer)


class NodeMakers:
    """The layers whose operators made the nodes of the gradient's graph, by the numbers of the graph's sequence."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._layers: list[str | None] = []

    def add(self, number: int, layer: str | None) -> None:
        """Note the number of the sequence when an operator in a layer began; a later operator replaces an earlier."""
        if self._numbers and self._numbers[-1] >= number:
            self._layers[-1] = layer
        else:
            self._numbers.append(number)
            self._layers.append(layer)

    def find_layer(self, number: int) -> str | None:
        """Return the layer of the operator that made a node; None if the operator is not known."""
        index = bisect_right(self._numbers, number) - 1
        return self._layers[index] if index >= 0 else None
