"""The layers of nodes whose names tell none, from the nodes around them in the graph.

Such a node is in the innermost layer that all of its neighbors are in; a recurrent one in the layer of its initial
state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

__all__ = ["Chain", "ScopedNode", "place_by_neighbors"]

_RECURRENT = ("LSTM", "GRU", "RNN")
#: Which input of a recurrent operator is its sequence, and which its initial state.
_SEQUENCE, _STATE = 0, 5

#: Scopes, or the names of layers, from the outermost on: ("net_1", "dense_1").
Chain = tuple[str, ...]


class ScopedNode(Protocol):
    """A node of a graph, as ONNX writes it: its name with scopes, its operator, and the names of its inputs."""

    @property
    def name(self) -> str:
        """Its name: "net_1/dense_1/MatMul"."""

    @property
    def op_type(self) -> str:
        """Its operator."""

    @property
    def input(self) -> Sequence[str]:
        """The names of the values that it reads; empty for one that is left out."""

    @property
    def output(self) -> Sequence[str]:
        """The names of the values that it makes."""


def place_by_neighbors(nodes: Sequence[ScopedNode], told_by_name: Sequence[Chain | None]) -> list[Chain]:
    """Return the layers of each node; if its name shows none (None), the layers that all of its neighbors are in."""
    makers = {value: index for index, node in enumerate(nodes) for value in node.output if value}
    sources = [[makers[value] for value in node.input if value in makers] for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for reader, its_sources in enumerate(sources):
        for source in its_sources:
            readers[source].append(reader)
    forward = range(len(nodes))
    above = _find_nearest(forward, sources, told_by_name)
    below = _find_nearest(reversed(forward), readers, told_by_name)
    by_value = {value: told_by_name[index] or above[index] for value, index in makers.items()}
    placed: list[Chain] = []
    for node, layers, before, after in zip(nodes, told_by_name, above, below, strict=True):
        if layers is None:
            layers = _find_layers_of_state(node, by_value)
        if layers is None:
            layers = _find_common([side for side in (before, after) if side is not None])
        placed.append(layers)
    return placed


def _find_nearest(
    order: Iterable[int], neighbors: Sequence[Sequence[int]], told_by_name: Sequence[Chain | None]
) -> list[Chain | None]:
    """Return for each node the layers that its neighbors on one side have in common.

    A neighbor that is in no layer is looked through, to its own neighbors on that side: ``order`` has these first. None
    stands for a node with no layer on that side.
    """
    nearest: list[Chain | None] = [None] * len(told_by_name)
    for index in order:
        seen = [told_by_name[neighbor] or nearest[neighbor] for neighbor in neighbors[index]]
        in_layers = [layers for layers in seen if layers is not None]
        nearest[index] = _find_common(in_layers) if in_layers else None
    return nearest


def _find_layers_of_state(node: ScopedNode, by_value: Mapping[str, Chain | None]) -> Chain | None:
    """Return the layers of a recurrent node by its initial state; None for another node, or if the state shows none.

    A state that is made in the layer itself shows this layer. A state from another layer, such as an encoder, shows the
    layers that it shares with the sequence, if there are any.
    """
    if node.op_type not in _RECURRENT or len(node.input) <= _STATE:
        return None
    state, sequence = (by_value.get(node.input[which]) for which in (_STATE, _SEQUENCE))
    if state is None or sequence is None:
        return state
    return _find_common([sequence, state]) or state


def _find_common(chains: Sequence[Chain]) -> Chain:
    """Return the scopes that all of several nodes are in, from the outermost on; none for no nodes."""
    shared = []
    for scopes in zip(*chains, strict=False):  # up to the end of the shortest
        if len(set(scopes)) > 1:
            break
        shared.append(scopes[0])
    return tuple(shared)
