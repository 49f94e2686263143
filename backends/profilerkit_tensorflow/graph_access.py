"""What graphs and operators say of themselves: functions by name, attributes in Python's terms."""

from __future__ import annotations

from typing import Any

from tensorflow.python.framework import function_def_to_graph

__all__ = ["attribute_of", "body_named", "forward_function"]


def function_named(graph: Any, name: str) -> Any:
    """Return a function that a graph's operators call by name."""
    while graph is not None:
        if graph._is_function(name):
            return graph._get_function(name)
        graph = getattr(graph, "outer_graph", None)
    raise LookupError(f"the graph has no function {name!r}")


def body_named(graph: Any, name: str) -> Any:
    """Return the graph of a function that a graph's operators call by name."""
    function = function_named(graph, name)
    body = getattr(function, "graph", None)
    if body is None:  # a function of TensorFlow 1 has its definition alone
        with graph.as_default():
            body = function_def_to_graph.function_def_to_graph(function.definition)
    return body


def forward_function(operator: Any, graph: Any) -> str | None:
    """Return the name of the function whose gradients a called one computes, if it is such a one."""
    function = function_named(graph, operator.get_attr("f").name)
    attributes = (getattr(function, "cached_definition", None) or function.definition).attr
    name: bytes = attributes["forward_function_name"].s if "forward_function_name" in attributes else b""
    return name.decode() or None


def attribute_of(operator: Any, name: str) -> Any:
    """Return an attribute of an operator in Python's terms: text as str, dtypes by name; None for one it lacks."""
    try:
        value = operator.get_attr(name)
    except ValueError:
        return None
    return _readable(value)


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [_readable(item) for item in value]
    return getattr(value, "name", value) if type(value).__name__ == "DType" else value
