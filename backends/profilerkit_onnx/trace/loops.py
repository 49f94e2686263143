"""``Loop``: the walk goes over the body once, with what is the same in every turn.

It counts as often as it runs, also where its condition counts the turns (`trips`), and up to its limit where it may
stop before. Where the number of turns is not known, one is counted, and the loop is named as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto

from profilerkit.backend_kit.graph_work import Body, Executed, Work, count_first
from profilerkit.costs import Shape

from .bodies import find_graph, name_inputs, stack_turns, walk_body
from .pricing import name_node
from .trips import count_trips
from .values import Value, Values
from .walk import Walk

__all__ = ["walk_loop"]

_MAY_STOP = "the Loop {!r} may stop before its limit: it is counted up to that"
_MAY_NOT_RUN = "the Loop {!r}, whose number of trips is not known, may not run at all: it is counted once"


class _Turns(NamedTuple):
    """How often the body of a loop runs.

    Attributes:
        number: How often; or at most, if it may stop; None where nothing is known.
        may_stop: Whether it may run less often, or never.
    """

    number: int | None
    may_stop: bool

    @property
    def factor(self) -> int:
        """How many turns are counted: one where their number is not known."""
        return 1 if self.number is None else self.number

    @property
    def exact(self) -> int | None:
        """How often the body runs, if it runs neither more nor less often; otherwise None."""
        return None if self.may_stop else self.number


def walk_loop(walk: Walk, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
    """Go over the body of a ``Loop``, whose inputs are its limit, its condition, and what the first turn gets."""
    graph, condition, begins = find_graph(node, "body"), inputs[1], inputs[2:]
    turns = _count_turns(walk, graph, inputs, values)
    turn = _make_turn(walk, has_condition=condition is not None)
    walk.work.executed.append(Executed("Loop", walk.node, (), turn, times))
    goes_on, body = _walk_any_turn(walk, graph, turn, begins, values, times * turns.factor)
    if turns.number is not None and condition is not None and condition.is_true and goes_on.is_true:
        turns = _Turns(turns.number, may_stop=False)  # only the limit ends it
    walk.work.add_loop(_count_work(walk, node, turns, body, begins))
    carried = [_carry_out(turns, begin, output) for begin, output in zip(begins, body.outputs, strict=False)]
    if any(value.from_inputs for value in values.values()):  # any of them may decide how often it runs
        carried = [value.mark_from_inputs() for value in carried]
    stacked = [stack_turns(walk, value, 0, turns.exact) for value in body.outputs[len(begins) :]]
    missing = "Loop of an unknown number of trips" if turns.number is None else ""
    walk.work.executed.append(Executed("Loop", walk.node, tuple(body.outputs), tuple(stacked), times, missing=missing))
    values.update(zip(node.output, [*carried, *stacked], strict=False))


def _count_turns(walk: Walk, graph: GraphProto, inputs: Sequence[Value | None], values: Values) -> _Turns:
    """Return how often a loop runs, as far as its inputs and its condition tell before its body is gone over."""
    trips, condition, *begins = inputs
    limit = None if trips is None or trips.array is None else max(int(trips.array), 0)
    if condition is None:  # the condition that the body makes is ignored then
        return _Turns(limit, may_stop=limit is None)
    if limit == 0 or (condition.array is not None and not condition.is_true):
        return _Turns(0, may_stop=False)
    if condition.array is None:
        return _Turns(limit, may_stop=True)
    counted = count_trips(graph, limit, begins, walk.add_initializers(graph, values), walk.opsets)
    return _Turns(limit, may_stop=True) if counted is None else _Turns(counted, may_stop=False)


def _make_turn(walk: Walk, has_condition: bool) -> tuple[Value, Value]:
    """Return the number of a turn and its condition, as the body gets them."""
    condition = np.asarray(True) if has_condition else None  # no turn begins with a false one
    return (
        Value.of(walk.take_number(), TensorProto.INT64, Shape(())),
        Value.of(walk.take_number(), TensorProto.BOOL, Shape(()), array=condition),
    )


def _walk_any_turn(
    walk: Walk,
    graph: GraphProto,
    turn: tuple[Value, Value],
    begins: Sequence[Value | None],
    values: Values,
    times: int,
) -> tuple[Value, Body[Value]]:
    """Go over a body with what is known of the carried values in every turn; return whether it goes on, and the rest.

    What the first turn gets is tried first; where a turn hands on a value of another size, that size is not known.
    """
    carried = [begin and begin.without_array() for begin in begins]
    while True:
        body = walk_body(walk, graph, values, times, name_inputs(graph, [*turn, *carried]))
        goes_on, *outputs = body.outputs
        common = [
            value and value.merge([output]).without_array() for value, output in zip(carried, outputs, strict=False)
        ]
        if [value and value.type for value in common] == [value and value.type for value in carried]:
            return goes_on, Body(body.work, outputs)
        carried = common


def _count_work(walk: Walk, node: NodeProto, turns: _Turns, body: Body[Value], begins: Sequence[Value | None]) -> Work:
    """Return the work of a loop: that of its body, or either that or none where it may stop, or not run at all."""
    if not turns.may_stop:
        return body.work
    reason = (_MAY_NOT_RUN if turns.number is None else _MAY_STOP).format(name_node(node))
    return count_first(body, _skip(body, begins), walk.node, walk.path, reason)


def _skip(body: Body[Value], begins: Sequence[Value | None]) -> Body[Value]:
    """Return what a loop does that does not run: nothing, but that it returns what its first turn would get."""
    handed_on = [before or output for before, output in zip(begins, body.outputs, strict=False)]
    return Body(Work(), [*handed_on, *body.outputs[len(begins) :]])


def _carry_out(turns: _Turns, before: Value | None, after: Value) -> Value:
    """Return what a loop hands out of a value that it carries: that of the last turn, or the first one if none runs."""
    if before is None or turns.exact:
        return after
    if turns.exact == 0:
        return before
    return after.merge([before])
