"""Graphs: the functions that they call, copies of their operators, and the shapes behind their resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.private_names import field, find

from .names import make_refusal

#: The class of graphs of functions. Without it a model that is not built is built with values.
FuncGraph: Any = find("tensorflow.python.framework.func_graph.FuncGraph")
#: The graph of a function of TensorFlow 1. Without it a model with such a function is not counted.
_to_graph: Any = find("tensorflow.python.framework.function_def_to_graph.function_def_to_graph")
#: The function of a name, in a graph. Without it models with functions, loops or branches are not counted.
_GET_FUNCTION = field("_get_function")
#: Puts a copy of an operator into a graph. Without it only the shapes of the graph itself are known.
_CREATE_OPERATOR = field("_create_op_internal")
#: Gives the copy of a resource the shapes of its contents. Without it likewise.
_copy_handle_data: Any = find("tensorflow.python.ops.handle_data_util.copy_handle_data")
#: The shape and dtype of the variable behind a handle. Without it the bytes of a lookup lack the rows that it reads.
_get_handle_data: Any = find("tensorflow.python.ops.handle_data_util.get_handle_data")
#: Runs one operator. Without these only constants and shapes decide loops and branches.
_execute: Any = find("tensorflow.python.eager.execute.execute")
_context: Any = find("tensorflow.python.eager.context.context")
#: The graph that a loop's or a branch's gradient is taken of. Without it such a gradient is the calling layer's.
_FORWARD_GRAPH = field("_forward_graph")


def find_function(graph: Any, name: str) -> Any:
    """Return the function of a name in a graph, or in the graphs around it; None if they have none."""
    while graph is not None:
        get_function = getattr(graph, _GET_FUNCTION, None)
        if get_function is None:
            raise make_refusal(_GET_FUNCTION, "reads the functions that a graph calls")
        function = get_function(name)
        if function is not None:
            return function
        graph = getattr(graph, "outer_graph", None)
    return None


def find_graph(function: Any, outer: Any) -> Any:
    """Return the graph of a function that ``outer`` calls: its own, or one made of its definition."""
    graph = getattr(function, "graph", None)
    if graph is not None:
        return graph
    if _to_graph is None:
        raise make_refusal("function_def_to_graph", "reads functions of TensorFlow 1")
    with outer.as_default():
        return _to_graph(function.definition)


def read_forward_graph(graph: Any) -> Any:
    """Return the graph whose gradient a graph computes; None for others."""
    return getattr(graph, _FORWARD_GRAPH, None)


def copy_operator(graph: Any, operator: Any, inputs: list[Any], attributes: Mapping[str, Any]) -> Any:
    """Return a copy of an operator in another graph, with other inputs; raises as TensorFlow's inference of shapes."""
    create = getattr(graph, _CREATE_OPERATOR, None)
    if create is None:
        raise TypeError("this release has another way to make operators")
    dtypes = [tensor.dtype for tensor in operator.outputs]
    return create(operator.type, inputs, dtypes, attrs=attributes, op_def=operator.op_def, compute_device=False)


def run_operator(operator: Any, arrays: Sequence[Any]) -> Any:
    """Return the array that an operator with one output makes of arrays; None if this release has another way.

    Raises an error of TensorFlow, `TypeError` or `ValueError` if the kernel does not take them.
    """
    if None in (_execute, _context):
        return None
    names = [attribute.name for attribute in operator.op_def.attr]
    attributes = [part for name in names for part in (name, _write_attribute(operator.get_attr(name)))]
    with tf.init_scope(), tf.device("/CPU:0"):
        inputs = [tf.constant(array, tensor.dtype) for array, tensor in zip(arrays, operator.inputs, strict=True)]
        [made] = _execute(operator.type.encode(), 1, inputs=inputs, attrs=tuple(attributes), ctx=_context())
    return made.numpy()


def _write_attribute(value: Any) -> Any:
    """Return the value of an attribute as the runtime takes it: a dtype as its number."""
    return value.as_datatype_enum if isinstance(value, tf.DType) else value


def copy_handle_data(source: Any, target: Any) -> None:
    """Give the copy of a resource the known shapes behind the resource."""
    if _copy_handle_data is not None:
        _copy_handle_data(source, target)


def read_held_tensor(handle: Any) -> tuple[tuple[int | None, ...] | None, str]:
    """Return the shape and the dtype of the variable behind a handle; of the handle itself if they are not known."""
    data = None if _get_handle_data is None else _get_handle_data(handle)
    if data is None or not data.shape_and_type:
        return (), "resource"
    variable = data.shape_and_type[0]
    shape = tf.TensorShape(variable.shape)
    return None if shape.rank is None else tuple(shape.as_list()), str(tf.as_dtype(variable.dtype).name)
