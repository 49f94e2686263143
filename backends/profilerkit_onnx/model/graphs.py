"""The graphs that nodes hold, such as branches and the bodies of loops, and the nodes in them."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, NodeProto

__all__ = ["list_inner_graphs", "list_nodes"]


def list_inner_graphs(node: NodeProto) -> list[GraphProto]:
    """Return the graphs that a node holds, without those inside of these."""
    single = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return [*single, *(graph for attribute in node.attribute for graph in attribute.graphs)]


def list_nodes(nodes: Iterable[NodeProto]) -> list[NodeProto]:
    """Return nodes, and behind each one those of the graphs inside it."""
    every = []
    for node in nodes:
        every.append(node)
        for graph in list_inner_graphs(node):
            every += list_nodes(graph.node)
    return every
