"""The walk over a ``Scan``: its body runs once for each slice of its inputs.

If the number of slices is not known, one turn is counted, and the operator is named as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profilerkit.backend_kit.graph_work import Executed

from ..model.nodes import name_node, read_attributes
from ..model.types import tensor_type
from .bodies import find_graph, hold_reads, leave_turn, require_inputs, stack_turns, walk_body
from .values import TurnNumber, TurnPart, UnfitError, Value
from .walk import Visit, Walk

__all__ = ["walk_scan"]

#: The first operator set whose ``Scan`` is read.
_FIRST = 9


def walk_scan(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the body of a ``Scan`` of operator set 9 or newer: its inputs are its first state and sliced values."""
    if walk.declared.opsets.get("", _FIRST) < _FIRST:
        raise UnfitError(
            f"the Scan {name_node(visit.node)!r} of operator set 8 goes over samples of a batch, which is not read; "
            f"export the model with operator set {_FIRST} or newer"
        )
    attributes = read_attributes(visit.node.attribute)
    slice_count = attributes.get("num_scan_inputs", 0)
    require_inputs(visit, slice_count)
    graph = find_graph(visit, "body", len(visit.inputs), len(visit.node.output))
    state_count = len(visit.inputs) - slice_count
    states, sequences = visit.inputs[:state_count], visit.inputs[state_count:]
    axes = attributes.get("scan_input_axes", [0] * len(sequences))
    length = _find_length(sequences, axes)
    hold_reads(walk, visit)
    numbers = _number_slices(walk, length, attributes.get("scan_input_directions", [0] * len(sequences)))
    slices = [
        value and _slice(walk, value, axis, number)
        for value, axis, number in zip(sequences, axes, numbers, strict=False)
    ]
    first_states = [value and value.without_array() for value in states]
    turns = 1 if length is None else length
    body = walk_body(walk, visit, graph, [*first_states, *slices], turns)
    stacked = _stack(walk, body.outputs[state_count:], attributes, length)
    if length == 0:
        _note_end(walk, visit, (), stacked)
        return [*filter(None, states), *stacked]
    walk.work.add_loop(body.work)
    _note_end(walk, visit, body.outputs, stacked, "Scan of an unknown length" if length is None else "")
    return [*map(leave_turn, body.outputs[:state_count]), *stacked]


def _stack(walk: Walk, results: Sequence[Value], attributes: Mapping[str, Any], length: int | None) -> list[Value]:
    """Return the stacked results of all turns."""
    axes = attributes.get("scan_output_axes", [0] * len(results))
    return [stack_turns(walk, value, axis, length) for value, axis in zip(results, axes, strict=True)]


def _note_end(walk: Walk, visit: Visit, returned: Sequence[Value], stacked: Sequence[Value], missing: str = "") -> None:
    """Note that the scan reads the results of its last turn, if there is one, and makes the stacked values of all."""
    walk.work.append(Executed("Scan", walk.node, returned, stacked, visit.times, missing=missing))


def _find_length(sequences: Sequence[Value | None], axes: Sequence[int]) -> int | None:
    """Return the size of the sliced dimension of the first value with a known shape; None if no shape is known."""
    for value, axis in zip(sequences, axes, strict=False):
        if value is not None and value.shape is not None:
            return value.shape[axis]
    return None


def _number_slices(walk: Walk, length: int | None, are_reversed: Sequence[int]) -> list[TurnNumber | None]:
    """Return the index of the slice that a turn gets of each sequence; None if the number of turns is not known."""
    if length is None:
        return [None] * len(are_reversed)
    forward = TurnNumber(next(walk.numbers), length)
    backward = forward._replace(first=length - 1, step=-1)
    return [backward if is_reversed else forward for is_reversed in are_reversed]


def _slice(walk: Walk, value: Value, axis: int, number: TurnNumber | None) -> Value:
    """Return the part of a value that each turn gets: the same buffer, without one of the dimensions."""
    sizes = None if value.shape is None else list(value.shape)
    if sizes is not None:
        del sizes[axis]
    kind = tensor_type(value.element, sizes)
    if number is None or not value.is_stored:
        return Value(value.number, kind)
    part = Value(next(walk.numbers), kind, is_stored=True)
    walk.origins[part.number] = TurnPart(value, axis, number)
    return part
