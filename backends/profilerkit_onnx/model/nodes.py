"""Nodes: names, attributes, the graphs that they hold, and the order in which they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper

from .types import STANDARD

__all__ = [
    "MOST_NODES",
    "list_inner_graphs",
    "list_nodes",
    "list_reads",
    "name_node",
    "name_nodes",
    "name_operator",
    "order_nodes",
    "read_attributes",
    "read_settings",
]

#: The most nodes in functions that a walk visits, which takes some seconds: a file of a kilobyte reaches this number
#: with 17 functions that each call the function before twice.
MOST_NODES = 100_000
#: The kinds of attributes that no formula has a use for.
_LEFT_OUT = (AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.TYPE_PROTO, AttributeProto.TYPE_PROTOS)
#: Attributes of convolutions and poolings that tables of layers show.
_SETTINGS = ("kernel_shape", "strides", "dilations", "group")


def name_operator(node: NodeProto) -> str:
    """Return the name of a node's operator, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in STANDARD else f"{node.domain}::{node.op_type}"


def name_node(node: NodeProto) -> str:
    """Return the name of a node in messages: its name, or its first output if it has none."""
    return node.name or node.output[0]


def name_nodes(graph: GraphProto, numbers: Counter[str] | None = None) -> list[tuple[str, str]]:
    """Return the name of a graph, and the id of each node in Model Explorer: its name, or "node".

    A name that occurs before in the graph gets a number. ``numbers`` are the last ones of all graphs so far: they go on
    from one graph inside another.
    """
    numbers = Counter() if numbers is None else numbers
    graph_name = graph.name if graph.HasField("name") else "<main>"
    ids: dict[str, None] = {}
    for node in graph.node:
        name = node_id = node.name or "node"
        while node_id in ids:
            numbers[name] += 1
            node_id = f"{name}_{numbers[name]}"
        ids[node_id] = None
        for inner in list_inner_graphs(node):
            name_nodes(inner, numbers)
    return [(graph_name, node_id) for node_id in ids]


def read_attributes(attributes: Iterable[AttributeProto]) -> dict[str, Any]:
    """Return attributes by name: numbers, texts, lists of them, tensors; no graphs, types, references to a call."""
    return {
        attribute.name: _decode(helper.get_attribute_value(attribute))
        for attribute in attributes
        if attribute.type not in _LEFT_OUT and not attribute.ref_attr_name
    }


def _decode(value: Any) -> Any:
    """Return a value of an attribute with texts in the place of bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_decode(item) for item in value] if isinstance(value, (list, tuple)) else value


def read_settings(nodes: Iterable[NodeProto], paths: Sequence[str]) -> dict[str, str]:
    """Return the settings of layers by their paths, as "kernel_shape=(3, 3), strides=(2, 2)".

    ``paths`` has the layer of each node. A layer of several nodes with different settings has none here.
    """
    written: dict[str, set[str]] = {}
    for node, path in zip(nodes, paths, strict=True):
        settings = []
        for attribute in node.attribute:
            if attribute.name in _SETTINGS:
                value = helper.get_attribute_value(attribute)
                value = value if isinstance(value, (int, float, bytes)) else tuple(value)
                settings.append(f"{attribute.name}={value!r}")
        if settings:
            written.setdefault(path, set()).add(", ".join(settings))
    return {path: min(texts) for path, texts in written.items() if len(texts) == 1}


def list_inner_graphs(node: NodeProto) -> list[GraphProto]:
    """Return the graphs that a node holds, without the graphs inside them."""
    graphs: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        graphs += attribute.graphs
    return graphs


def list_nodes(model: ModelProto) -> list[NodeProto]:
    """Return the nodes of a model: of its graph, of its functions, and of the graphs inside these nodes."""
    nodes = [*model.graph.node]
    for function in model.functions:
        nodes += function.node
    for node in nodes:  # which grow meanwhile
        for graph in list_inner_graphs(node):
            nodes += graph.node
    return nodes


def order_nodes(nodes: Sequence[NodeProto]) -> list[int]:
    """Return the indices of nodes in an order in which each node reads only results of nodes before it.

    This is usually the order of the file. But onnxruntime sorts nodes itself, and its quantizer writes a loop before
    the weights that only the body of the loop reads.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    order: dict[int, None] = {}
    waiting = list(reversed(range(len(nodes))))  # the next node is the last
    seen = set[int]()
    while waiting:
        index = waiting[-1]
        if index in seen:  # for the second time: the nodes whose results it reads are in order
            order[waiting.pop()] = None
            continue
        seen.add(index)
        needs = {makers[name] for name in list_reads(nodes[index]) if name in makers}
        waiting += sorted(needs - seen, reverse=True)
    return list(order)


def list_reads(node: NodeProto) -> set[str]:
    """Return the values that a node reads, with the outer values that the graphs inside it read or return."""
    names = set(node.input)
    for graph in list_inner_graphs(node):
        made = {name for inner in graph.node for name in inner.output}
        made |= {value.name for value in (*graph.input, *graph.initializer)}
        names |= {name for inner in graph.node for name in list_reads(inner)} - made
        names |= {value.name for value in graph.output} - made
    return names
