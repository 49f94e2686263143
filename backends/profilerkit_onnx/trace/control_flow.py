"""The walk over the operators that hold graphs: ``If``, ``Loop`` and ``Scan``.

- If constants or the given inputs choose the branch of an ``If``, only this branch is counted; otherwise the most
  expensive branch, which makes an upper bound.
- The walk goes over the body of a ``Loop`` or ``Scan`` once, for all of its turns. It counts as often as it runs, and
  up to its limit if its condition may stop it before, unless the condition counts the turns (`turns`). If their number
  is not known, one turn is counted, and the operator is named as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto

from profilerkit.backend_kit.failures import UnfitError
from profilerkit.backend_kit.graph_work import Executed, Work, count_first
from profilerkit.backend_kit.running_order import Body, Turns

from ..model.nodes import name_node, read_attributes
from ..model.types import common_type, tensor_type
from .turns import count_turns
from .values import Value
from .walk import Handler, Visit, Walk

__all__ = ["HANDLERS"]

#: The first operator set whose ``Scan`` is read.
_FIRST_SCAN = 9
_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"
#: The largest int64, which converters write as the limit of ``while``.
_NO_LIMIT = 2**63 - 1
_MAY_STOP = "the Loop {!r} may stop before its limit: it is counted up to that"
_MAY_NOT_RUN = "the Loop {!r}, whose number of turns is not known, may not run at all: it is counted once"


# Branches -------------------------------------------------------------------------------------------------------------


def _walk_if(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the branch of an ``If`` that runs, or over both branches if the condition is not known."""
    visit.require_inputs(1)
    walk.hold_reads(visit)
    condition = visit.inputs[0]
    if condition is None or condition.array is None:
        return _walk_both(walk, visit)
    branch = "then_branch" if condition.is_true else "else_branch"
    taken = walk.walk_body(visit, visit.find_graph(branch, 0, len(visit.node.output)))
    walk.work.add(taken.work)
    walk.follows_inputs |= condition.from_inputs
    return [value.mark_from_inputs() if condition.from_inputs else value for value in taken.outputs]


def _walk_both(walk: Walk, visit: Visit) -> list[Value]:
    """Walk both branches, count the more expensive one, and return the known facts about the outputs of both."""
    graphs = [visit.find_graph(name, 0, len(visit.node.output)) for name in ("then_branch", "else_branch")]
    bodies = [walk.walk_body(visit, graph) for graph in graphs]
    dearer, cheaper = sorted(bodies, key=lambda body: body.work.price, reverse=True)
    walk.work.add(count_first(dearer.work, cheaper.work, walk.path, _DEARER.format(name_node(visit.node))))
    return [value.merge(other) for value, other in zip(dearer.outputs, cheaper.outputs, strict=True)]


# Loops ----------------------------------------------------------------------------------------------------------------


def _walk_loop(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the body of a ``Loop``, whose inputs are its limit, its condition, and the values of the first turn.

    A loop is noted as two operators. The one before its body makes the number of a turn and its condition, which are
    alive while the body runs; the one after it makes the stacked values of all turns.
    """
    visit.require_inputs(2)
    graph = visit.find_graph("body", len(visit.inputs), 1 + len(visit.node.output))
    walk.hold_reads(visit)
    _, condition, *begins = visit.inputs
    turns, follows_inputs = _find_turns(walk, visit, graph)
    number = Value(next(walk.numbers), tensor_type(TensorProto.INT64, ()))
    # A turn begins only while the condition holds, so inside the body it is true. Without one nothing is known.
    is_asked = condition is not None
    goes_on = Value(
        next(walk.numbers), tensor_type(TensorProto.BOOL, ()), is_asked, np.asarray(True) if is_asked else None
    )
    walk.work.append(Executed("Loop", walk.node, (), (number, goes_on), visit.times))

    body = _walk_any_turn(walk, visit, graph, (number, goes_on), begins, turns.number_to_count)
    goes_on_after, *results = body.outputs
    ends, collected = results[: len(begins)], results[len(begins) :]
    if turns.most is not None and condition is not None and condition.is_true and goes_on_after.is_true:
        turns = Turns(turns.most, turns.most)  # nothing but the limit ends it

    stacked = [_stack_turns(walk, value, 0, turns.exact) for value in collected]
    if turns.exact is None:  # it may stop early, or not run
        reason = (_MAY_NOT_RUN if turns.most is None else _MAY_STOP).format(name_node(visit.node))
        walk.work.add_loop(count_first(body.work, Work(), walk.path, reason))
    elif turns.exact > 0:
        walk.work.add_loop(body.work)
    missing = "Loop of an unknown number of turns" if turns.most is None else ""
    last = () if turns.exact == 0 else results
    walk.work.append(Executed("Loop", walk.node, last, stacked, visit.times, missing=missing))

    walk.follows_inputs |= follows_inputs and turns.exact is not None
    carried = [_choose_last(turns, begin, end) for begin, end in zip(begins, ends, strict=True)]
    return [*(value.mark_from_inputs() if follows_inputs else value for value in carried), *stacked]


def _find_turns(walk: Walk, visit: Visit, graph: GraphProto) -> tuple[Turns, bool]:
    """Return how often the body of a loop runs, as far as that is known before the walk over it.

    And whether it follows from elements of the inputs that the call gives.
    """
    limit, condition, *begins = visit.inputs
    follows_inputs = any(value is not None and value.from_inputs for value in (limit, condition))
    most = None
    if limit is not None and limit.array is not None and int(limit.array.item()) != _NO_LIMIT:
        most = max(int(limit.array.item()), 0)
    if condition is None:  # the condition that the body makes is ignored then
        return Turns(most or 0, most), follows_inputs
    if most == 0 or (condition.array is not None and not condition.is_true):
        return Turns(0, 0), follows_inputs
    if condition.array is not None:
        values = walk.add_initializers(graph, visit.values)
        counted = count_turns(graph, most, begins, values, walk.declared.opsets)
        if counted is not None:
            return Turns(counted.number, counted.number), follows_inputs or counted.follows_inputs
    return Turns(0, most), follows_inputs


def _walk_any_turn(
    walk: Walk,
    visit: Visit,
    graph: GraphProto,
    own_values: Sequence[Value],
    begins: Sequence[Value | None],
    number_to_count: int,
) -> Body[Work, Value]:
    """Walk the body of a loop with the facts that hold in every turn; it gets ``own_values`` and the carried values.

    The sizes of the first turn are tried first. If a turn returns a value of another size, that size is unknown, and
    the body is walked again, until it returns the sizes that it gets.
    """
    carried = [begin and begin.carry() for begin in begins]
    while True:
        body = walk.walk_body(visit, graph, [*own_values, *carried], number_to_count)
        common = [
            before and replace(before, type=common_type(before.type, after.type))
            for before, after in zip(carried, body.outputs[1:], strict=False)  # behind the condition
        ]
        if [value and value.type for value in common] == [value and value.type for value in carried]:
            return body
        carried = common


def _choose_last(turns: Turns, before: Value | None, after: Value) -> Value:
    """Return a carried value as the last turn leaves it, or as the first one gets it if none runs."""
    if before is None or turns.least > 0:
        return after
    if turns.exact == 0:
        return before
    return after.merge(before)


def _stack_turns(walk: Walk, value: Value, axis: int, length: int | None) -> Value:
    """Return the stacked value of a loop: the values of all turns along a new dimension."""
    if value.shape is None or length is None:
        return Value(next(walk.numbers), tensor_type(value.element, None))
    sizes = list(value.shape)
    sizes.insert(axis % (len(sizes) + 1), length)
    return Value(next(walk.numbers), tensor_type(value.element, sizes))


def _walk_scan(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the body of a ``Scan`` of operator set 9 or newer: its inputs are its first states and sliced values."""
    if walk.declared.opsets.get("", _FIRST_SCAN) < _FIRST_SCAN:
        raise UnfitError(
            f"the Scan {name_node(visit.node)!r} of operator set 8 goes over samples of a batch, which is not read; "
            f"export the model with operator set {_FIRST_SCAN} or newer"
        )
    attributes = read_attributes(visit.node.attribute)
    slice_count = attributes.get("num_scan_inputs", 0)
    visit.require_inputs(slice_count)
    graph = visit.find_graph("body", len(visit.inputs), len(visit.node.output))
    walk.hold_reads(visit)
    state_count = len(visit.inputs) - slice_count
    states = visit.inputs[:state_count]
    slices, length = _slice_all(visit.inputs[state_count:], attributes)
    turns = 1 if length is None else length
    body = walk.walk_body(visit, graph, [*(value and value.carry() for value in states), *slices], turns)
    results = body.outputs[state_count:]
    axes = attributes.get("scan_output_axes", [0] * len(results))
    stacked = [_stack_turns(walk, value, axis, length) for value, axis in zip(results, axes, strict=True)]
    if turns:
        walk.work.add_loop(body.work)
    missing = "Scan of an unknown length" if length is None else ""
    # The scan itself reads the results of its last turn, if there is one, and makes the stacked values of all.
    last = body.outputs if turns else ()
    walk.work.append(Executed("Scan", walk.node, last, stacked, visit.times, missing=missing))
    return [*(body.outputs[:state_count] if turns else filter(None, states)), *stacked]


def _slice_all(
    sequences: Sequence[Value | None], attributes: Mapping[str, Any]
) -> tuple[list[Value | None], int | None]:
    """Return the slice of each sequence that a turn gets, and the number of slices; None if no shape is known.

    A slice is in the buffer of its sequence, and has all of its dimensions but one.
    """
    slices, length = list[Value | None](), None
    for value, axis in zip(sequences, attributes.get("scan_input_axes", [0] * len(sequences)), strict=False):
        if value is None:
            slices.append(None)
            continue
        sizes = None if value.shape is None else list(value.shape)
        if sizes is not None:
            size = sizes.pop(axis)
            length = size if length is None else length
        slices.append(Value(value.number, tensor_type(value.element, sizes)))
    return slices, length


#: The function that goes over each operator with graphs inside.
HANDLERS: Mapping[str, Handler] = {"If": _walk_if, "Loop": _walk_loop, "Scan": _walk_scan}
