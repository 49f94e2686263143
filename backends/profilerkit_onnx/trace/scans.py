"""``Scan``: the walk goes over the body once, which runs once for each slice of the inputs.

Where the length is not known, one turn is counted, and the operator is named as missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from profilerkit.backend_kit.graph_work import Executed

from ..model.types import tensor_type
from .bodies import find_graph, stack_turns, walk_body
from .pricing import read_attributes
from .values import Value
from .walk import Visit, Walk

__all__ = ["walk_scan"]


def walk_scan(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the body of a ``Scan`` of operator set 9 or newer: its inputs are its first state, and what is sliced."""
    graph, attributes = find_graph(visit.node, "body"), read_attributes(visit.node)
    state_count = len(visit.inputs) - attributes["num_scan_inputs"]
    states, sequences = visit.inputs[:state_count], visit.inputs[state_count:]
    axes = attributes.get("scan_input_axes", [0] * len(sequences))
    length = _find_length(sequences, axes)
    first_states = [value and value.without_array() for value in states]
    slices = [value and _slice(value, axis) for value, axis in zip(sequences, axes, strict=False)]
    body = walk_body(walk, visit, graph, [*first_states, *slices], turns=1 if length is None else length)
    walk.work.add_loop(body.work)
    last_states, results = body.outputs[:state_count], body.outputs[state_count:]
    stacked_axes = attributes.get("scan_output_axes", [0] * len(results))
    stacked = [stack_turns(walk, value, axis, length) for value, axis in zip(results, stacked_axes, strict=True)]
    missing = "Scan of an unknown length" if length is None else ""
    done = Executed("Scan", walk.node, tuple(body.outputs), tuple(stacked), visit.times, missing=missing)
    walk.work.executed.append(done)
    return [*last_states, *stacked]


def _find_length(sequences: Sequence[Value | None], axes: Sequence[int]) -> int | None:
    """Return the size of the sliced dimension of the first value that has a known shape; None where none has."""
    for value, axis in zip(sequences, axes, strict=False):
        if value is not None and value.shape is not None:
            return value.shape[axis]
    return None


def _slice(value: Value, axis: int) -> Value:
    """Return what each turn gets of a value: the same buffer, without one of the dimensions."""
    if value.shape is None:
        return Value(value.number, tensor_type(value.element, None))
    sizes = list(value.shape)
    del sizes[axis]
    return Value(value.number, tensor_type(value.element, sizes))
