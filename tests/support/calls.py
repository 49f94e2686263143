"""Calls of operators as cost formulas see them, out of graphs that TensorFlow itself builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry, tensor_util

from profilerkit.costs import Cost, Shape
from profilerkit_tensorflow.costs import OpCall, Shapes, op_cost


def spec(*shape: int | None, dtype: str = "float32") -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype)


def graph_call(operator: tf.Operation) -> OpCall:
    """Return the call that an operator of a graph is."""

    def attribute(name: str) -> Any:
        try:
            return plain(operator.get_attr(name))
        except ValueError:
            return None

    def value(index: int) -> Any:
        return tensor_util.constant_value(operator.inputs[index])

    return OpCall(
        operator.type,
        Shapes([static_shape(tensor) for tensor in operator.inputs]),
        Shapes([static_shape(tensor) for tensor in operator.outputs]),
        tuple(tensor.dtype.name for tensor in operator.inputs),
        tuple(tensor.dtype.name for tensor in operator.outputs),
        attribute,
        value=value,
    )


def static_shape(tensor: tf.Tensor) -> Shape | None:
    known = tensor.shape.rank is not None and None not in tensor.shape.as_list()
    return Shape(tensor.shape.as_list()) if known else None


def plain(value: Any) -> Any:
    """Return an attribute's value with bytes as text and dtypes by their names."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, tf.DType):
        return value.name
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def operators(function: Callable[..., Any], *specs: tf.TensorSpec) -> list[tf.Operation]:
    """Return the operators of the graph that a function is, its inputs' places left out."""
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    return [operator for operator in graph.get_operations() if operator.type not in ("Placeholder", "Const", "NoOp")]


def calls(kind: str, function: Callable[..., Any], *specs: tf.TensorSpec) -> list[OpCall]:
    """Return the calls of one type of operator in the graph that a function is."""
    found = [operator for operator in operators(function, *specs) if operator.type == kind]
    assert found, f"no {kind}, only {sorted({operator.type for operator in operators(function, *specs)})}"
    return [graph_call(operator) for operator in found]


def cost(kind: str, function: Callable[..., Any], *specs: tf.TensorSpec) -> Cost | None:
    """Return the cost of the one operator of that type in the graph that a function is."""
    (call,) = calls(kind, function, *specs)
    return op_cost(call)


def raw_cost(kind: str, **arguments: Any) -> Cost | None:
    """Return the cost of an operator by its name, also of one that no public function makes.

    Specs among the arguments, lists of them too, stand for tensors; whatever else is a constant or an attribute.
    """
    graph = tf.Graph()
    with graph.as_default():
        placed_arguments = {name: place(value) for name, value in arguments.items()}
        op_def_library.apply_op(kind, name="operator", **{**defaults(kind), **placed_arguments})
    operator = graph.get_operation_by_name("operator")
    return op_cost(graph_call(operator))


def defaults(kind: str) -> dict[str, Any]:
    """Return the attributes that an operator's definition gives a value to, and that do not follow from its inputs."""
    definition = op_def_registry.get(kind)
    inputs = definition.input_arg
    inferred = {name for given in inputs for name in (given.type_attr, given.number_attr, given.type_list_attr)}
    return {
        attribute.name: default(attribute.default_value)
        for attribute in definition.attr
        if attribute.HasField("default_value") and attribute.name not in inferred
    }


def default(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return next((list(items) for _, items in value.list.ListFields()), []) if kind == "list" else getattr(value, kind)


def place(value: Any) -> Any:
    if isinstance(value, tf.TensorSpec):
        return tf.compat.v1.placeholder(value.dtype, value.shape)
    if isinstance(value, list):
        return [place(item) for item in value]
    return value


def total(function: Callable[..., Any], *specs: tf.TensorSpec) -> Cost:
    """Return the cost of all operators of the graph that a function is; every one of them has to be known."""
    found = [(operator.type, op_cost(graph_call(operator))) for operator in operators(function, *specs)]
    unknown = sorted({kind for kind, known in found if known is None})
    assert not unknown, unknown
    return Cost(*(sum(numbers) for numbers in zip(*(known for _, known in found if known is not None), strict=True)))
