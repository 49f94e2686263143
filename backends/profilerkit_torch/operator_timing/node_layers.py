"""The layer of each event of the profiler.

A node of the gradient's graph has the number that the graph's sequence had when the operator that made it began: the
layer of the operator is the layer of the node. A node that adds to a parameter's gradient has no number; it runs right
after the node that computes this gradient, and gets the layer of that node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable

from .events import EventKind, Frame

__all__ = ["assign_layers"]


def assign_layers(frames: Iterable[Frame]) -> None:
    """Give each frame without a layer the layer of the frame around it, and each node the layer of its maker.

    The frames are in order of time. The layer of a node stays None if no operator before it is known.
    """
    makers: defaultdict[Hashable, _NodeMakers] = defaultdict(_NodeMakers)
    last_nodes: dict[Hashable, str | None] = {}  # by thread, the layer of the last node
    for frame in frames:
        event = frame.event
        if event.kind is EventKind.NODE and not frame.is_inner_node:
            if event.number >= 0:
                last_nodes[event.thread] = makers[_find_number_thread(frame)].find_layer(event.number)
            frame.layer = last_nodes.get(event.thread)
        elif frame.layer is None and frame.outer is not None:
            frame.layer = frame.outer.layer
        if event.kind is EventKind.OPERATOR and event.number >= 0:
            makers[_find_number_thread(frame)].add(event.number, frame.layer)


def _find_number_thread(frame: Frame) -> Hashable:
    """Return the thread that counted the number of an operator or a node; None for the threads of the forward pass.

    Without the profile's word, work inside a node is numbered by its own thread: the layers that a checkpoint runs
    again, and their nodes.
    """
    if frame.event.number_thread is not None:
        return frame.event.number_thread
    is_inside_node = any(outer.event.kind is EventKind.NODE for outer in frame.outer_frames)
    return frame.event.thread if is_inside_node else None


class _NodeMakers:
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
