"""The ids of nodes in Model Explorer."""

from __future__ import annotations

from collections import Counter

from onnx import GraphProto

from .nodes import list_inner_graphs

__all__ = ["name_nodes"]


def name_nodes(graph: GraphProto, numbers: Counter[str] | None = None) -> list[tuple[str, str]]:
    """Return the name of a graph, and the id of each node in Model Explorer: its name, or "node".

    A name that occurs before in the graph gets a number. ``numbers`` are the last ones of all graphs so far: they go on
    from one graph inside another.
    """
    numbers = Counter() if numbers is None else numbers
    graph_name = graph.name if graph.HasField("name") else "<main>"
    ids: dict[tuple[str, str], None] = {}
    for node in graph.node:
        name = node_id = node.name or "node"
        while (graph_name, node_id) in ids:
            numbers[name] += 1
            node_id = f"{name}_{numbers[name]}"
        ids[graph_name, node_id] = None
        for inner in list_inner_graphs(node):
            name_nodes(inner, numbers)
    return list(ids)
