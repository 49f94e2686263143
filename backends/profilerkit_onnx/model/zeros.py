"""Zeros among the weights of a model: how many there are, read one tensor after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from onnx import GraphProto, ModelProto, TensorProto

from .scopes import find_scopes
from .types import dtype_name
from .weights import list_constants, list_graphs, list_weights

__all__ = ["count_nonzero", "zero_weights"]


def zero_weights(model: ModelProto, read: Callable[[TensorProto], Any]) -> tuple[int, int]:
    """Return how many elements of the floating-point parameters are zero, and how many there are.

    ``read`` returns the values of a tensor; it is called for one after another, and none is kept.
    """
    constants = list_constants(model)
    names = list(constants)
    weights = list_weights(model, find_scopes(model), constants)
    parameters = {names[int(weight.record.identity)] for weight in weights if weight.is_parameter}
    stored = {tensor.name: tensor for graph in list_graphs(model.graph) for tensor in _list_stored(graph)}
    zeros = total = 0
    for tensor in map(stored.__getitem__, parameters):
        if dtype_name(tensor.values.data_type).startswith(("float", "bfloat")):
            zeros += tensor.elements - count_nonzero(read(tensor.values))
            total += tensor.elements
    return zeros, total


class _StoredTensor(NamedTuple):
    """A constant: its name, the tensor with the elements that are stored, and how many elements it has."""

    name: str
    values: TensorProto
    elements: int


def _list_stored(graph: GraphProto) -> Iterator[_StoredTensor]:
    """Yield the constants of a graph."""
    for tensor in graph.initializer:
        yield _StoredTensor(tensor.name, tensor, math.prod(tensor.dims))
    for sparse in graph.sparse_initializer:
        yield _StoredTensor(sparse.values.name, sparse.values, math.prod(sparse.dims))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value" and attribute.HasField("t"):
                yield _StoredTensor(node.output[0], attribute.t, math.prod(attribute.t.dims))


def count_nonzero(array: Any) -> int:
    """Return how many elements of an array are not zero, of any dtype."""
    return int((array != array.dtype.type(0)).sum())
