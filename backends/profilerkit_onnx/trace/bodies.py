"""The graphs inside an operator: their work and their results, and how a loop combines the results of its turns."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto

from profilerkit.backend_kit.graph_work import Body, Executed, Work, note_apart

from ..model.nodes import list_reads
from ..model.types import tensor_type
from .values import UnfitError, Value, find_value
from .walk import Visit, Walk

__all__ = ["find_graph", "hold_reads", "leave_turn", "require_inputs", "stack_turns", "walk_body"]


_ADVICE = "the file does not follow the standard; export the model again"


def require_inputs(visit: Visit, least: int) -> None:
    """Raise `UnfitError` for a node with too few inputs, as in a damaged file."""
    if len(visit.inputs) < least:
        raise UnfitError(f"the {_describe(visit)} has {len(visit.inputs)} inputs and needs {least}; {_ADVICE}")


def find_graph(visit: Visit, attribute: str, inputs: int, outputs: int) -> GraphProto:
    """Return the graph that an attribute of a node holds, with so many inputs and outputs.

    Raises `UnfitError` if there is none, or if it has other numbers of them, as in a damaged file.
    """
    graph: GraphProto | None = next((entry.g for entry in visit.node.attribute if entry.name == attribute), None)
    if graph is None:
        raise UnfitError(f"the {_describe(visit)} has no {attribute}; {_ADVICE}")
    sizes = len(graph.input), len(graph.output)
    if sizes != (inputs, outputs):
        raise UnfitError(
            f"the {attribute} of the {_describe(visit)} has {sizes[0]} inputs and {sizes[1]} outputs, and must have "
            f"{inputs} and {outputs}; {_ADVICE}"
        )
    return graph


def _describe(visit: Visit) -> str:
    return f"{visit.operator} {visit.node.name!r}"


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
