"""Operators that are made anew with better known shapes, so that TensorFlow's own inference of shapes works on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ..compat.graphs import FuncGraph, copy_handle_data, copy_operator
from .folding import Folding
from .values import Value

__all__ = ["Specialized"]

#: Attributes with the shapes that the graph had.
_OUTDATED = ("_output_shapes", "_class", "_xla_inferred_shapes")


class Specialized:
    """A scope's operators, made anew in a separate graph as the walk comes to them."""

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._graph = FuncGraph("specialized") if FuncGraph is not None else tf.Graph()
        self._twins: dict[int, Any] = {}

    def find_outputs(self, operator: Any, inputs: Sequence[Value]) -> Sequence[Any]:
        """Return the outputs of an operator on inputs of the shapes that are known by now."""
        attributes = {name: value for name, value in operator.node_def.attr.items() if name not in _OUTDATED}
        try:
            with self._graph.as_default():
                twin = copy_operator(self._graph, operator, [self._find_twin(value) for value in inputs], attributes)
        except (ValueError, TypeError):  # then the graph's own shapes are all that is known
            return list(operator.outputs)
        return list(twin.outputs)

    def keep(self, value: Value, tensor: Any) -> None:
        """Note which tensor of this graph stands for a value."""
        if tensor.graph is self._graph:
            self._twins[value.number] = tensor

    def _find_twin(self, value: Value) -> Any:
        """Return the tensor of this graph that stands for a value."""
        twin = self._twins.get(value.number)
        if twin is None:
            twin = self._twins[value.number] = self._make_stand_in(value)
        return twin

    def _make_stand_in(self, value: Value) -> Any:
        """Return a tensor of this graph for a value: a constant if its numbers are known."""
        constant = self._folding.constant(value)
        dtype = tf.dtypes.as_dtype(value.dtype)
        if constant is not None:
            return tf.constant(constant, dtype=dtype)
        placeholder = tf.compat.v1.placeholder(dtype, value.shape)
        if dtype in (tf.resource, tf.variant):
            copy_handle_data(value.tensor, placeholder)
        return placeholder
