"""Graphs: how they are made of code, converted and walked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.private_names import field, find

from .names import make_refusal

#: The class of graphs of functions. Without it a model that is not built is built with values.
FuncGraph: Any = find("tensorflow.python.framework.func_graph.FuncGraph")
#: Converts code with conditions on tensors as ``tf.function`` does. Without these such a model is not counted.
_tf_convert: Any = find("tensorflow.python.autograph.impl.api.tf_convert")
_ControlStatus: Any = find("tensorflow.python.autograph.core.ag_ctx.ControlStatusCtx")
_Status: Any = find("tensorflow.python.autograph.core.ag_ctx.Status")
_Options: Any = find("tensorflow.python.autograph.core.converter.ConversionOptions")
#: The graph of a function of TensorFlow 1. Without it a model with such a function is not counted.
_to_graph: Any = find("tensorflow.python.framework.function_def_to_graph.function_def_to_graph")
#: The function of a name, in a graph. Without it models with functions, loops or branches are not counted.
_GET_FUNCTION = field("_get_function")
#: Puts a copy of an operator into a graph. Without it shapes are those that the graph itself knows.
_CREATE_OPERATOR = field("_create_op_internal")
#: Gives the copy of a resource the shapes of what it holds. Without it likewise.
_copy_handle_data: Any = find("tensorflow.python.ops.handle_data_util.copy_handle_data")
#: What is known of the variable behind a handle. Without it what a lookup reads of a table is not among its bytes.
_get_handle_data: Any = find("tensorflow.python.ops.handle_data_util.get_handle_data")
#: The graph that a loop's or a branch's gradient is taken of. Without it such a gradient is the calling layer's.
_FORWARD_GRAPH = field("_forward_graph")
#: What a ``tf.function`` was made with. Without one of them its layers are not seen: their work is the caller's.
_FUNCTION_ARGUMENTS = {
    "name": field("_name"),
    "autograph": field("_autograph"),
    "jit_compile": field("_jit_compile"),
    "experimental_attributes": field("_attributes"),
    "experimental_autograph_options": field("_experimental_autograph_options"),
}
#: The traces of a ``tf.function``. Without it a function without inputs has the weights that its code leads to.
_LIST_TRACES = field("_list_all_concrete_functions")


def convert(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable with its Python code converted; unchanged where this release has another way to do so."""
    if not can_convert():
        return call
    options = _Options(recursive=True, user_requested=True)
    made: Callable[..., Any] = _tf_convert(call, _ControlStatus(status=_Status.ENABLED, options=options))
    return made


def can_convert() -> bool:
    """Return whether this release shows how to convert code with conditions and loops over tensors."""
    return None not in (_tf_convert, _ControlStatus, _Status, _Options)


def make_twin(function: Any) -> Any:
    """Return a ``tf.function`` of the same code and settings without traces; None if this release hides them."""
    if not all(hasattr(function, attribute) for attribute in _FUNCTION_ARGUMENTS.values()):
        return None
    settings = {name: getattr(function, attribute) for name, attribute in _FUNCTION_ARGUMENTS.items()}
    return type(function)(function.python_function, **settings)


def find_function(graph: Any, name: str) -> Any:
    """Return the function of a name in a graph, or in those around it; None where they have none."""
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


def copy_handle_data(source: Any, target: Any) -> None:
    """Give the copy of a resource what is known of the shapes behind it."""
    if _copy_handle_data is not None:
        _copy_handle_data(source, target)


def count_held_bytes(handle: Any) -> int:
    """Return the bytes of the variable behind a handle, of a graph or an eager one; 0 where they are not known."""
    data = None if _get_handle_data is None else _get_handle_data(handle)
    if data is None or not data.shape_and_type:
        return 0
    variable = data.shape_and_type[0]
    return int(tf.TensorShape(variable.shape).num_elements() or 0) * int(tf.as_dtype(variable.dtype).size)


def list_traces(function: Any) -> list[Any] | None:
    """Return the traces of a ``tf.function``; None if this release hides them, or for anything else."""
    traces = getattr(function, _LIST_TRACES, None)
    return None if traces is None else list(traces())
