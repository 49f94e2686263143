"""What lies inside a model: the graphs that nodes hold, the nodes in these, and tensors with the files they are in."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from .nodes import list_inner_graphs

__all__ = ["LEFT", "MOST_NODES", "external_files", "list_nodes", "list_tensors", "order_nodes"]

#: The most nodes in functions that are gone over, some seconds: 17 functions that each call the last one twice have as
#: many, in a file of a kilobyte.
MOST_NODES = 100_000
#: The location of elements that were left in the file of the model itself. No file can know this name.
LEFT = f"profilerkit.left.{secrets.token_hex(16)}"


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


def external_files(model: ModelProto) -> list[str]:
    """Return the names of the files that hold tensors of a model, in its graph, the graphs inside and its functions.

    Where elements were left in the file of the model itself, `LEFT` is among them.
    """
    names = map(_read_location, list_tensors(model))
    return list(dict.fromkeys(name for name in names if name is not None))


def _read_location(tensor: TensorProto) -> str | None:
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def list_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of a model: of its graph, of the graphs inside, and of its functions."""
    yield from _list_in_graph(model.graph)
    for function in model.functions:
        yield from _list_in_nodes(function.node)


def _list_in_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _list_in_nodes(graph.node)


def _list_in_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            for sparse in attribute.sparse_tensors:
                yield from (sparse.values, sparse.indices)
        for inner in list_inner_graphs(node):
            yield from _list_in_graph(inner)
