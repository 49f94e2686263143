"""The walk over the operators that hold graphs: ``If`` and ``Scan`` here, ``Loop`` in `loops`.

- If constants or the given inputs choose the branch of an ``If``, only this branch is counted; otherwise the most
  expensive branch, which makes an upper bound.
- The body of a ``Scan`` runs once for each slice of the inputs. If the length is not known, one turn is counted, and
  the operator is named as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profilerkit.backend_kit.graph_branches import count_first
from profilerkit.backend_kit.graph_work import Executed

from ..model.nodes import name_node, read_attributes
from ..model.types import tensor_type
from .bodies import find_graph, hold_reads, leave_turn, stack_turns, walk_body
from .loops import walk_loop
from .values import TurnNumber, TurnPart, UnfitError, Value
from .walk import Handler, Visit, Walk

__all__ = ["HANDLERS"]

#: The first operator set whose ``Scan`` is read.
_FIRST = 9
_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"


def _walk_if(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the branch of an ``If`` that runs, or over both branches if the condition is not known."""
    hold_reads(walk, visit)
    condition = visit.inputs[0]
    if condition is None or condition.array is None:
        return _walk_both(walk, visit)
    taken = walk_body(walk, visit, find_graph(visit.node, "then_branch" if condition.is_true else "else_branch"))
    walk.work.add(taken.work)
    return [value.mark_from_inputs() if condition.from_inputs else value for value in taken.outputs]


def _walk_both(walk: Walk, visit: Visit) -> list[Value]:
    """Walk both branches, count the more expensive one, and return the known facts about the outputs of both."""
    graphs = [find_graph(visit.node, name) for name in ("then_branch", "else_branch")]
    dearer, cheaper = (walk_body(walk, visit, graph) for graph in graphs)
    if dearer.work.price < cheaper.work.price:
        dearer, cheaper = cheaper, dearer
    walk.work.add(count_first(dearer, cheaper, walk.node, walk.path, _DEARER.format(name_node(visit.node))))
    return [value.merge(other) for value, other in zip(dearer.outputs, cheaper.outputs, strict=True)]


def _walk_scan(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the body of a ``Scan`` of operator set 9 or newer: its inputs are its first state and sliced values."""
    if walk.declared.opsets.get("", _FIRST) < _FIRST:
        raise UnfitError(
            f"the Scan {name_node(visit.node)!r} of operator set 8 goes over samples of a batch, which is not read; "
            f"export the model with operator set {_FIRST} or newer"
        )
    graph, attributes = find_graph(visit.node, "body"), read_attributes(visit.node.attribute)
    state_count = len(visit.inputs) - attributes["num_scan_inputs"]
    states, sequences = visit.inputs[:state_count], visit.inputs[state_count:]
    axes = attributes.get("scan_input_axes", [0] * len(sequences))
    length = _find_length(sequences, axes)
    hold_reads(walk, visit)
    first_states = [value and value.without_array() for value in states]
    are_reversed = attributes.get("scan_input_directions", [0] * len(sequences))
    numbers = _number_turns(walk, length, are_reversed)
    slices = [
        value and _slice(walk, value, axis, number)
        for value, axis, number in zip(sequences, axes, numbers, strict=False)
    ]
    body = walk_body(walk, visit, graph, [*first_states, *slices], turns=1 if length is None else length)
    last_states, results = [leave_turn(state) for state in body.outputs[:state_count]], body.outputs[state_count:]
    if length == 0:
        last_states = [state for state in states if state is not None]
    else:
        walk.work.add_loop(body.work)
    stacked_axes = attributes.get("scan_output_axes", [0] * len(results))
    stacked = [stack_turns(walk, value, axis, length) for value, axis in zip(results, stacked_axes, strict=True)]
    missing = "Scan of an unknown length" if length is None else ""
    returned = () if length == 0 else tuple(body.outputs)
    done = Executed("Scan", walk.node, returned, tuple(stacked), visit.times, missing=missing)
    walk.work.append(done)
    return [*last_states, *stacked]


def _find_length(sequences: Sequence[Value | None], axes: Sequence[int]) -> int | None:
    """Return the size of the sliced dimension of the first value with a known shape; None if no shape is known."""
    for value, axis in zip(sequences, axes, strict=False):
        if value is not None and value.shape is not None:
            return value.shape[axis]
    return None


def _number_turns(walk: Walk, length: int | None, are_reversed: Sequence[int]) -> list[TurnNumber | None]:
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


#: The function that goes over each operator with graphs inside.
HANDLERS: Mapping[str, Handler] = {"If": _walk_if, "Loop": walk_loop, "Scan": _walk_scan}
