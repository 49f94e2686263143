"""The walk over a ``Loop``: how often its body runs, and the facts that are the same in every turn.

The walk goes over the body once. The body counts as often as it runs, also if its condition counts the turns, and up to
its limit if it may stop before. If the number of turns is not known, one is counted, and the loop is named as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, TypeProto

from profilerkit.backend_kit.graph_branches import count_first
from profilerkit.backend_kit.graph_work import Body, Executed, Work
from profilerkit.backend_kit.loop_turns import Turns

from ..model.nodes import name_node
from ..model.types import tensor_type
from .bodies import find_graph, hold_reads, stack_turns, walk_body
from .folding import read_array
from .turns import count_turns
from .values import Array, Value, Values
from .walk import Visit, Walk

__all__ = ["walk_loop"]

#: The largest int64, which converters write as the limit of ``while``.
_NO_LIMIT = 2**63 - 1
_MAY_STOP = "the Loop {!r} may stop before its limit: it is counted up to that"
_MAY_NOT_RUN = "the Loop {!r}, whose number of turns is not known, may not run at all: it is counted once"


class _LoopInputs(NamedTuple):
    """The inputs of a ``Loop``.

    Attributes:
        limit: How often its body runs at most; None for no limit.
        condition: Whether the first turn begins; None if nothing but the limit ends the loop.
        begins: The values at the first turn that are carried from turn to turn.
    """

    limit: Value | None
    condition: Value | None
    begins: Sequence[Value | None]


class _AnyTurn(NamedTuple):
    """The work and the results of the body of a loop, as far as they are the same in every turn.

    Attributes:
        work: Its work in all turns together.
        goes_on: Whether another turn follows.
        carried: The values that it passes to the next turn.
        stacked: The values that the loop collects from every turn.
    """

    work: Work
    goes_on: Value
    carried: Sequence[Value]
    stacked: Sequence[Value]


def walk_loop(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the body of a ``Loop``, whose inputs are its limit, its condition, and the values of the first turn."""
    hold_reads(walk, visit)
    graph = find_graph(visit.node, "body")
    read = _LoopInputs(visit.inputs[0], visit.inputs[1], visit.inputs[2:])
    turns_by_inputs = _find_turns(walk, graph, read, visit.values)
    arguments = [*_note_begin(walk, read, turns_by_inputs.exact, visit.times), *read.begins]
    turn = _walk_any_turn(walk, visit, graph, arguments, turns_by_inputs.number_to_count)
    turns = _settle_turns(turns_by_inputs, read, turn)
    if turns.exact != 0:
        walk.work.add_loop(_count_work(walk, visit.node, turns, turn, read.begins))
    stacked = [stack_turns(walk, value, 0, turns.exact) for value in turn.stacked]
    _note_end(walk, turns, turn, stacked, visit.times)
    return [*_carry_out(turns, read, turn, visit.values), *stacked]


def _find_turns(walk: Walk, graph: GraphProto, read: _LoopInputs, values: Values) -> Turns:
    """Return how often a loop runs, as far as its inputs and its condition tell before the walk over its body."""
    condition, limit = read.condition, _read_limit(read.limit)
    if condition is None:  # the condition that the body makes is ignored then
        return Turns(limit or 0, limit)
    if limit == 0 or (condition.array is not None and not condition.is_true):
        return Turns(0, 0)
    if condition.array is None:
        return Turns(0, limit)
    counted = count_turns(graph, limit, read.begins, walk.add_initializers(graph, values), walk.declared.opsets)
    return Turns(0, limit) if counted is None else Turns(counted, counted)


def _read_limit(limit: Value | None) -> int | None:
    """Return how often a loop runs at most; None if the limit is not known, or there is no limit."""
    if limit is None or limit.array is None:
        return None
    number = int(limit.array.item())
    return None if number == _NO_LIMIT else max(number, 0)


def _settle_turns(turns: Turns, read: _LoopInputs, turn: _AnyTurn) -> Turns:
    """Return how often a loop runs, after the walk over its body.

    A condition that is true before the first turn and after every turn never stops the loop: it runs up to its limit.
    """
    never_stops = read.condition is not None and read.condition.is_true and turn.goes_on.is_true
    return Turns(turns.most, turns.most) if never_stops and turns.most is not None else turns


def _note_begin(walk: Walk, read: _LoopInputs, turns: int | None, times: int) -> list[Value]:
    """Note that the loop makes the number of a turn and its condition; return these two, which its body gets.

    A loop is noted as two operators: this one before its body, because these two values are alive while the body runs,
    and the operator of `_note_end` after it.
    """
    # A turn begins only while the condition holds, so that inside the body it is true. Without one nothing is known.
    true = None if read.condition is None else np.asarray(True)
    number = Value(next(walk.numbers), tensor_type(TensorProto.INT64, ()), turns=turns)
    condition = Value(next(walk.numbers), tensor_type(TensorProto.BOOL, ()), array=true)
    walk.work.append(Executed("Loop", walk.node, (), (number, condition), times))
    return [number, condition]


def _note_end(walk: Walk, turns: Turns, turn: _AnyTurn, stacked: Sequence[Value], times: int) -> None:
    """Note that the loop reads the results of its last turn, if there is one, and makes the stacked values of all."""
    missing = "Loop of an unknown number of turns" if turns.most is None else ""
    returned = () if turns.exact == 0 else (*turn.carried, *turn.stacked)
    walk.work.append(Executed("Loop", walk.node, returned, tuple(stacked), times, missing=missing))


def _walk_any_turn(
    walk: Walk, visit: Visit, graph: GraphProto, arguments: Sequence[Value | None], turns: int
) -> _AnyTurn:
    """Walk a body with the facts that hold in every turn; ``arguments`` are the arguments of the first turn.

    The sizes of the first turn are tried first. If a turn returns a value of another size, that size is unknown, and
    the body is walked again, until it returns the sizes that it gets.
    """
    number, condition, *begins = arguments
    carried = [None if begin is None else begin.without_array() for begin in begins]
    while True:
        for index, value in enumerate(carried):
            if value is not None and number is not None and _counts_turns(graph, index, begins[index], visit.values):
                value.turns = number.turns
        body = walk_body(walk, visit, graph, [number, condition, *carried], turns)
        goes_on, *outputs = body.outputs
        handed_on, stacked = outputs[: len(begins)], outputs[len(begins) :]
        common = [
            None if before is None else before.merge(after).without_array()
            for before, after in zip(carried, handed_on, strict=True)
        ]
        if _list_types(common) == _list_types(carried):
            return _AnyTurn(body.work, goes_on, handed_on, stacked)
        carried = common


def _counts_turns(graph: GraphProto, index: int, begin: Value | None, around: Values) -> bool:
    """Return whether a carried value is the number of the turn: it begins with 0, and each turn adds 1 to it.

    So ``while i < n`` counts, which exporters do not write with the loop's own number. ``around`` are the outer values.
    """
    formal, result = graph.input[2 + index].name, graph.output[1 + index].name
    adds = [node.input for node in graph.node if node.op_type == "Add" and result in node.output]
    if begin is None or not adds or formal not in adds[0] or not _is_number(begin.array, 0):
        return False
    added = next((name for name in adds[0] if name != formal), formal)
    nodes = [node for node in graph.node if node.op_type == "Constant" and added in node.output]
    tensors = [entry.t for node in nodes for entry in node.attribute if entry.HasField("t")]
    tensors += [tensor for tensor in graph.initializer if tensor.name == added]
    if tensors:
        return _is_number(read_array(tensors[0]), 1)
    return added in around and _is_number(around[added].array, 1)


def _is_number(array: Array | None, number: int) -> bool:
    return array is not None and array.size == 1 and array.item() == number


def _list_types(values: Sequence[Value | None]) -> list[TypeProto | None]:
    return [None if value is None else value.type for value in values]


def _count_work(walk: Walk, node: NodeProto, turns: Turns, turn: _AnyTurn, begins: Sequence[Value | None]) -> Work:
    """Return the work of a loop: the work of its body, or a choice of that or none if it may stop early or not run."""
    if turns.exact is not None:
        return turn.work
    reason = (_MAY_NOT_RUN if turns.most is None else _MAY_STOP).format(name_node(node))
    runs = Body(turn.work, [*turn.carried, *turn.stacked])
    # A loop that does not run returns the values for its first turn.
    first = [after if begin is None else begin for begin, after in zip(begins, turn.carried, strict=True)]
    return count_first(runs, Body(Work(), [*first, *turn.stacked]), walk.node, walk.path, reason)


def _carry_out(turns: Turns, read: _LoopInputs, turn: _AnyTurn, values: Values) -> list[Value]:
    """Return the carried values that a loop returns.

    Any value around the loop whose elements follow from the inputs of the call may decide how often the loop runs: then
    the results follow from the inputs too.
    """
    carried = [_choose_last(turns, begin, end) for begin, end in zip(read.begins, turn.carried, strict=True)]
    may_follow_from_inputs = any(value.from_inputs for value in values.values())
    return [value.mark_from_inputs() for value in carried] if may_follow_from_inputs else carried


def _choose_last(turns: Turns, before: Value | None, after: Value) -> Value:
    """Return a carried value as the last turn leaves it, or as the first one gets it if none runs."""
    if before is None or turns.least > 0:
        return after
    if turns.exact == 0:
        return before
    return after.merge(before)
