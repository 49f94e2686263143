"""What the nodes of a graph are called by the adapter of Model Explorer for ONNX, whose ids must be unique."""

from __future__ import annotations

from collections import Counter

from onnx import GraphProto

from .graphs import list_inner_graphs

__all__ = ["name_nodes"]


def name_nodes(graph: GraphProto) -> list[tuple[str, str]]:
    """Return the name of a graph, and the id of each of its nodes: its name, or "node" where it has none.

    A name that occurs before in the graph gets a number, which goes on from one graph inside another.
    """
    name = graph.name if graph.HasField("name") else "<main>"
    return [(name, node_id) for node_id in _make_unique(graph, Counter())]


def _make_unique(graph: GraphProto, numbers: Counter[str]) -> list[str]:
    """Return the ids of the nodes of a graph; ``numbers`` are the last numbers that names got, in any graph so far."""
    ids: dict[str, None] = {}
    for node in graph.node:
        name = node_id = node.name or "node"
        while node_id in ids:
            numbers[name] += 1
            node_id = f"{name}_{numbers[name]}"
        ids[node_id] = None
        for inner in list_inner_graphs(node):
            _make_unique(inner, numbers)
    return list(ids)
