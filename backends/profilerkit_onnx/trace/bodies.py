"""Graphs inside an operator: the walk over one of them, and what loops hand out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import GraphProto, NodeProto

from profilerkit.backend_kit.graph_work import Body, note_apart
from profilerkit.costs import Shape

from .values import Value, Values, find_value
from .walk import Walk

__all__ = ["find_graph", "name_inputs", "stack_turns", "walk_body"]


def find_graph(node: NodeProto, attribute: str) -> GraphProto:
    """Return the graph that an attribute of a node holds."""
    graph: GraphProto = next(entry.g for entry in node.attribute if entry.name == attribute)
    return graph


def walk_body(
    walk: Walk, graph: GraphProto, values: Values, times: int, inputs: Mapping[str, Value] | None = None
) -> Body[Value]:
    """Go over a graph that runs so many times; return what that adds to the walk's work, without adding it.

    Args:
        walk: The walk that has come to the node with the graph.
        graph: The graph.
        values: The values around the node, all of which the graph may read.
        times: How often it runs.
        inputs: The values of the graph's own inputs.
    """
    inner = {**walk.add_initializers(graph, values), **(inputs or {})}
    with note_apart(walk) as work:
        walk.walk_nodes(graph.node, inner, times)
    return Body(work, [find_value(output.name, inner) for output in graph.output])


def name_inputs(graph: GraphProto, inputs: Sequence[Value | None]) -> Values:
    """Return the values that a body gets, by the names of its inputs."""
    named = zip(graph.input, inputs, strict=True)
    return {formal.name: value for formal, value in named if value is not None}


def stack_turns(walk: Walk, value: Value, axis: int, length: int | None) -> Value:
    """Return what a loop hands out of a value that each turn makes: all of them along a new dimension."""
    if value.shape is None or length is None:
        return Value.of(walk.take_number(), value.element, None)
    sizes = list(value.shape)
    sizes.insert(axis % (len(sizes) + 1), length)
    return Value.of(walk.take_number(), value.element, Shape(sizes))
