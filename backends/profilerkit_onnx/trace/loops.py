"""The walk over a ``Loop``: how often its body runs, and the facts that are the same in every turn.

The walk goes over the body once. The body counts as often as it runs, and up to its limit if its condition may stop it
before. If the number of turns is not known, one is counted, and the loop is named as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import GraphProto, TensorProto

from profilerkit.backend_kit.graph_branches import count_first
from profilerkit.backend_kit.graph_work import Executed, Work
from profilerkit.backend_kit.running_order import Body, Turns

from ..model.nodes import name_node
from ..model.types import common_type, tensor_type
from .values import Value
from .walk import Visit, Walk

__all__ = ["stack_turns", "walk_loop"]

#: The largest int64, which converters write as the limit of ``while``.
_NO_LIMIT = 2**63 - 1
_MAY_STOP = "the Loop {!r} may stop before its limit: it is counted up to that"
_MAY_NOT_RUN = "the Loop {!r}, whose number of turns is not known, may not run at all: it is counted once"


def walk_loop(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the body of a ``Loop``, whose inputs are its limit, its condition, and the values of the first turn.

    A loop is noted as two operators. The one before its body makes the number of a turn and its condition, which are
    alive while the body runs; the one after it makes the stacked values of all turns.
    """
    visit.require_inputs(2)
    graph = visit.find_graph("body", len(visit.inputs), 1 + len(visit.node.output))
    walk.hold_reads(visit)
    limit, condition, *begins = visit.inputs
    turns = _find_turns(limit, condition)
    number = Value(next(walk.numbers), tensor_type(TensorProto.INT64, ()))
    # A turn begins only while the condition holds, so inside the body it is true. Without one nothing is known.
    true = None if condition is None else np.asarray(True)
    goes_on = Value(next(walk.numbers), tensor_type(TensorProto.BOOL, ()), array=true)
    walk.work.append(Executed("Loop", walk.node, (), (number, goes_on), visit.times))

    body = _walk_any_turn(walk, visit, graph, (number, goes_on), begins, turns.number_to_count)
    goes_on_after, *results = body.outputs
    ends, collected = results[: len(begins)], results[len(begins) :]
    if turns.most is not None and condition is not None and condition.is_true and goes_on_after.is_true:
        turns = Turns(turns.most, turns.most)  # nothing but the limit ends it

    stacked = [stack_turns(walk, value, 0, turns.exact) for value in collected]
    if turns.exact is None:  # it may stop early, or not run
        reason = (_MAY_NOT_RUN if turns.most is None else _MAY_STOP).format(name_node(visit.node))
        walk.work.add_loop(count_first(body.work, Work(), walk.path, reason))
    elif turns.exact > 0:
        walk.work.add_loop(body.work)
    missing = "Loop of an unknown number of turns" if turns.most is None else ""
    last = () if turns.exact == 0 else results
    walk.work.append(Executed("Loop", walk.node, last, stacked, visit.times, missing=missing))

    follows_inputs = any(value is not None and value.from_inputs for value in (limit, condition))
    walk.follows_inputs |= follows_inputs and turns.exact is not None
    carried = [_choose_last(turns, begin, end) for begin, end in zip(begins, ends, strict=True)]
    return [*(value.mark_from_inputs() if follows_inputs else value for value in carried), *stacked]


def _find_turns(limit: Value | None, condition: Value | None) -> Turns:
    """Return how often the body of a loop runs, as far as that is known before the walk over it."""
    most = None
    if limit is not None and limit.array is not None and int(limit.array.item()) != _NO_LIMIT:
        most = max(int(limit.array.item()), 0)
    if condition is None:  # the condition that the body makes is ignored then
        return Turns(most or 0, most)
    is_over = most == 0 or (condition.array is not None and not condition.is_true)
    return Turns(0, 0 if is_over else most)


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


def stack_turns(walk: Walk, value: Value, axis: int, length: int | None) -> Value:
    """Return the stacked value of a loop: the values of all turns along a new dimension."""
    if value.shape is None or length is None:
        return Value(next(walk.numbers), tensor_type(value.element, None))
    sizes = list(value.shape)
    sizes.insert(axis % (len(sizes) + 1), length)
    return Value(next(walk.numbers), tensor_type(value.element, sizes))
