"""Reading graphs and operators: functions by name, and attributes as Python values."""

from __future__ import annotations

from typing import Any

from tensorflow.python.framework import function_def_to_graph

__all__ = ["attribute_of", "body_named", "find_body", "find_function", "forward_function", "function_attributes"]


def find_function(graph: Any, name: str) -> Any:
    """Return a function that a graph's operators call by name; None where neither it nor one around it has it."""
    while graph is not None:
        if graph._is_function(name):
            return graph._get_function(name)
        graph = getattr(graph, "outer_graph", None)
    return None


def find_body(graph: Any, name: str | None) -> Any:
    """Return the graph of a function that a graph's operators call by name; None where there is no such function."""
    function = find_function(graph, name) if name else None
    if function is None:
        return None
    body = getattr(function, "graph", None)
    if body is None:  # a function of TensorFlow 1 has its definition alone
        with graph.as_default():
            body = function_def_to_graph.function_def_to_graph(function.definition)
    return body


def body_named(graph: Any, name: str) -> Any:
    """Return the graph of a function that a graph's operators call by name."""
    body = find_body(graph, name)
    if body is None:
        raise LookupError(f"the graph has no function {name!r}")
    return body


def function_attributes(graph: Any, name: str) -> Any:
    """Return the attributes that a function's definition has, by name; none where the graph does not know it."""
    function = find_function(graph, name)
    return {} if function is None else (getattr(function, "cached_definition", None) or function.definition).attr


def forward_function(graph: Any, name: str) -> str:
    """Return the name of the function whose gradients a function computes; empty where it computes none."""
    attributes = function_attributes(graph, name)
    return attributes["forward_function_name"].s.decode() if "forward_function_name" in attributes else ""


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
