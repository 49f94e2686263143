"""The tensors of a model, and the names of the files that hold their elements."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from .nodes import list_inner_graphs

__all__ = ["LEFT", "external_files", "list_tensors"]

#: The location of elements that were left in the file of the model itself. No file can know this name.
LEFT = f"profilerkit.left.{secrets.token_hex(16)}"


def external_files(model: ModelProto) -> list[str]:
    """Return the names of the files that hold tensors of a model, in its graph, the graphs inside and its functions.

    If elements were left in the file of the model itself, `LEFT` is among them.
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
