"""Reading graphs: functions by name, and attributes as Python values."""

from __future__ import annotations

from typing import Any

from ..compat.graphs import find_function, find_graph

__all__ = ["body_named", "find_body", "forward_function", "function_attributes", "read_attribute"]


def find_body(graph: Any, name: str | None) -> Any:
    """Return the graph of a function that a graph's operators call by name; None if there is no such function."""
    function = find_function(graph, name) if name else None
    return None if function is None else find_graph(function, graph)


def body_named(graph: Any, name: str) -> Any:
    """Return the graph of a function that a graph's operators call by name."""
    body = find_body(graph, name)
    if body is None:
        raise LookupError(f"the graph has no function {name!r}")
    return body


def function_attributes(graph: Any, name: str) -> Any:
    """Return the attributes that a function's definition has, by name; none if the graph does not know it."""
    function = find_function(graph, name)
    return {} if function is None else (getattr(function, "cached_definition", None) or function.definition).attr


def forward_function(graph: Any, name: str) -> str:
    """Return the name of the function whose gradients a function computes; empty if it computes none."""
    attributes = function_attributes(graph, name)
    return attributes["forward_function_name"].s.decode() if "forward_function_name" in attributes else ""


def read_attribute(operator: Any, name: str) -> Any:
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
