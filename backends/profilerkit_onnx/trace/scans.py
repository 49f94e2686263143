"""``Scan``: the walk goes over the body once, which runs once for each slice of the inputs.

Where the length is not known, one turn is counted, and the operator is named as missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from profilerkit.backend_kit.graph_work import Executed
from profilerkit.costs import Shape

from .bodies import find_graph, name_inputs, stack_turns, walk_body
from .pricing import read_attributes
from .values import Value, Values
from .walk import Walk

__all__ = ["walk_scan"]


def walk_scan(walk: Walk, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
    """Go over the body of a ``Scan`` of operator set 9 or newer: its inputs are its first state, and what is sliced."""
    graph = find_graph(node, "body")
    attributes = read_attributes(node)
    state_count = len(inputs) - attributes["num_scan_inputs"]
    states, sequences = inputs[:state_count], inputs[state_count:]
    axes = attributes.get("scan_input_axes", [0] * len(sequences))
    sliced = list(zip(sequences, axes, strict=False))
    length = _find_length(sliced)
    first_states = [value and value.without_array() for value in states]
    slices = [value and _slice(value, axis) for value, axis in sliced]
    turns = 1 if length is None else length
    body = walk_body(walk, graph, values, times * turns, name_inputs(graph, [*first_states, *slices]))
    walk.work.add_loop(body.work)
    last_states, results = body.outputs[:state_count], body.outputs[state_count:]
    stacked_axes = attributes.get("scan_output_axes", [0] * len(results))
    stacked = [stack_turns(walk, value, axis, length) for value, axis in zip(results, stacked_axes, strict=True)]
    missing = "Scan of an unknown length" if length is None else ""
    walk.work.executed.append(Executed("Scan", walk.node, tuple(body.outputs), tuple(stacked), times, missing=missing))
    values.update(zip(node.output, [*last_states, *stacked], strict=False))


def _find_length(sliced: Sequence[tuple[Value | None, int]]) -> int | None:
    """Return the size of the sliced dimension of the first value that has a known shape; None where none has."""
    for value, axis in sliced:
        if value is not None and value.shape is not None:
            return value.shape[axis]
    return None


def _slice(value: Value, axis: int) -> Value:
    """Return what each turn gets of a value: the same buffer, without one of the dimensions."""
    if value.shape is None:
        return Value.of(value.number, value.element, None)
    sizes = list(value.shape)
    del sizes[axis]
    return Value.of(value.number, value.element, Shape(sizes))
