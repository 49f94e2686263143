"""Zeros among the weights of a model: how many there are, read one tensor after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onnx import GraphProto, ModelProto, TensorProto

from .scopes import find_scopes
from .types import dtype_name
from .weights import list_constants, list_graphs, weight_records

__all__ = ["count_nonzero", "zero_weights"]


def zero_weights(model: ModelProto, read: Callable[[TensorProto], Any]) -> tuple[int, int]:
    """Return how many elements of the floating-point parameters are zero, and how many there are.

    ``read`` returns the values of a tensor; it is called for one after another, and none is kept.
    """
    constants = list_constants(model)
    names = list(constants)
    records = weight_records(model, find_scopes(model), constants)
    parameters = {names[int(record.identity)] for lists in records.values() for record in lists[0]}
    tensors: Mapping[str, tuple[TensorProto, int]] = {
        name: (tensor, elements) for graph in list_graphs(model.graph) for name, tensor, elements in _tensors(graph)
    }
    zeros = total = 0
    for name in parameters:
        tensor, elements = tensors[name]
        if dtype_name(tensor.data_type).startswith(("float", "bfloat")):
            zeros += elements - count_nonzero(read(tensor))
            total += elements
    return zeros, total


def _tensors(graph: GraphProto) -> Iterator[tuple[str, TensorProto, int]]:
    """Yield the constants of a graph: name, the tensor with the elements that are stored, and how many there are."""
    for tensor in graph.initializer:
        yield tensor.name, tensor, math.prod(tensor.dims)
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, sparse.values, math.prod(sparse.dims)
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value" and attribute.HasField("t"):
                yield node.output[0], attribute.t, math.prod(attribute.t.dims)


def count_nonzero(array: Any) -> int:
    """Return how many elements of an array are not zero, of any dtype."""
    return int((array != array.dtype.type(0)).sum())
