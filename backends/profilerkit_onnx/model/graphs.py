"""The graphs that nodes hold, such as branches and the bodies of loops, and the nodes in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import GraphProto, NodeProto

__all__ = ["MOST_NODES", "list_inner_graphs", "list_nodes", "order_nodes"]

#: The most nodes in functions that are gone over, some seconds: 17 functions that each call the last one twice have as
#: many, in a file of a kilobyte.
MOST_NODES = 100_000


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


def order_nodes(nodes: Sequence[NodeProto]) -> list[int]:
    """Return the indices of nodes in an order in which each one reads what those before it make.

    That is the order of the file, as a rule. But onnxruntime sorts nodes itself, and its quantizer writes a loop before
    the weights that only the body of the loop reads.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [sorted({makers[name] for name in _list_reads(node) if name in makers}) for node in nodes]
    order: list[int] = []
    visited: set[int] = set()
    for first in range(len(nodes)):
        waiting = [first]
        while waiting:
            index = waiting[-1]
            missing = [] if index in visited else [need for need in needs[index] if need not in visited]
            visited.add(index)
            if missing:
                waiting += missing
            else:
                waiting.pop()
                order.append(index)
    return list(dict.fromkeys(order))


def _list_reads(node: NodeProto) -> set[str]:
    """Return the values that a node reads, those around it that the graphs inside it read among them."""
    names = set(node.input)
    for graph in list_inner_graphs(node):
        made = {name for inner in graph.node for name in inner.output}
        made |= {value.name for value in (*graph.input, *graph.initializer)}
        names |= {name for inner in graph.node for name in _list_reads(inner)} - made
    return names
