"""Carried values of a loop that count, such as ``i`` of ``while i < n``, as exporters write it."""

from __future__ import annotations

from typing import NamedTuple

from onnx import GraphProto

from .folding import read_array
from .values import Array, Value, Values

__all__ = ["Count", "find_count"]


class Count(NamedTuple):
    """A carried value that counts: its number in the first turn, and how much it grows with each turn."""

    first: int
    step: int


def find_count(graph: GraphProto, index: int, begin: Value | None, around: Values) -> Count | None:
    """Return how a carried value of a body counts; None if it does anything else than adding a constant.

    Args:
        graph: The body.
        index: The index of the value among the carried ones.
        begin: The value in the first turn.
        around: The values around the loop.
    """
    formal, result = graph.input[2 + index].name, graph.output[1 + index].name  # behind number and condition
    first = None if begin is None else _read_integer(begin.array)
    adding = next((node for node in graph.node if result in node.output), None)
    if first is None or adding is None or formal not in adding.input or len(adding.input) != 2:
        return None
    constants = [name for name in adding.input if name != formal] or [formal]
    step = _read_integer(_read_constant(graph, constants[0], around))
    if step is None:
        return None
    if adding.op_type == "Sub" and adding.input[0] == formal:
        return Count(first, -step)
    return Count(first, step) if adding.op_type == "Add" else None


def _read_constant(graph: GraphProto, name: str, around: Values) -> Array | None:
    """Return the elements of a constant of a body, or of a value around it, by its name; None if they are not known."""
    nodes = [node for node in graph.node if node.op_type == "Constant" and name in node.output]
    tensors = [entry.t for node in nodes for entry in node.attribute if entry.HasField("t")]
    tensors += [tensor for tensor in graph.initializer if tensor.name == name]
    if tensors:
        return read_array(tensors[0])
    return around[name].array if name in around else None


def _read_integer(array: Array | None) -> int | None:
    """Return the only element of an array of integers; None for any other array."""
    is_integer = array is not None and array.size == 1 and array.dtype.kind in "iu"
    return int(array.item()) if array is not None and is_integer else None
