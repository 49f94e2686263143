"""The graphs inside an operator: their work and their results, and how a loop combines the results of its turns."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto, NodeProto

from profilerkit.backend_kit.graph_work import Body, Executed, Work, note_apart

from ..model.nodes import list_reads
from ..model.types import tensor_type
from .values import Value, find_value
from .walk import Visit, Walk

__all__ = ["find_graph", "hold_reads", "leave_turn", "stack_turns", "walk_body"]


def find_graph(node: NodeProto, attribute: str) -> GraphProto:
    """Return the graph that an attribute of a node holds."""
    graph: GraphProto = next(entry.g for entry in node.attribute if entry.name == attribute)
    return graph


def hold_reads(walk: Walk, visit: Visit) -> None:
    """Keep values alive until a node begins: its inputs, and the outer values that any of its graphs reads."""
    names = list_reads(visit.node)
    read = [value for name, value in visit.values.items() if name in names]
    walk.work.hold(Executed(visit.node.op_type, walk.node, read, ()))


def walk_body(
    walk: Walk, visit: Visit, graph: GraphProto, inputs: Sequence[Value | None] = (), turns: int = 1
) -> Body[Work, Value]:
    """Go over a graph of a node; return its work and its outputs, without adding the work to the walk's.

    ``inputs`` are the values of the graph's own inputs. The graph runs ``turns`` times in each run of the node.
    """
    formals = zip(graph.input, inputs, strict=True)
    own_values = {formal.name: value for formal, value in formals if value is not None}
    inner = {**walk.add_initializers(graph, visit.values), **own_values}
    with note_apart(walk) as work:
        walk.walk_nodes(graph.node, inner, visit.times * turns)
    return Body(work, [find_value(output.name, inner) for output in graph.output])


def leave_turn(value: Value) -> Value:
    """Return a value as the last turn of a loop leaves it: elements that follow from the turns are not known then."""
    return Value(value.number, value.type) if value.is_stored and not value.constant else value


def stack_turns(walk: Walk, value: Value, axis: int, length: int | None) -> Value:
    """Return the stacked value of a loop: the values of all turns along a new dimension."""
    if value.shape is None or length is None:
        return Value(next(walk.numbers), tensor_type(value.element, None))
    sizes = list(value.shape)
    sizes.insert(axis % (len(sizes) + 1), length)
    return Value(next(walk.numbers), tensor_type(value.element, sizes))
