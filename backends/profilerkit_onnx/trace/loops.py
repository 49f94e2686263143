"""The walk over a ``Loop``: how often its body runs, and the facts that are the same in every turn.

The walk goes over the body once. The body counts as often as it runs, and up to its limit if its condition may stop it
before. If the number of turns is not known, one is counted, and the loop is named as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, TensorProto, TypeProto

from profilerkit.backend_kit.graph_branches import count_first
from profilerkit.backend_kit.graph_work import Executed, Work
from profilerkit.backend_kit.running_order import Turns

from ..model.nodes import name_node
from ..model.types import common_type, tensor_type
from .values import Value
from .walk import Visit, Walk

__all__ = ["stack_turns", "walk_loop"]

#: The largest int64, which converters write as the limit of ``while``.
_NO_LIMIT = 2**63 - 1
_MAY_STOP = "the Loop {!r} may stop before its limit: it is counted up to that"
_MAY_NOT_RUN = "the Loop {!r}, whose number of turns is not known, may not run at all: it is counted once"


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
    visit.require_inputs(2)
    body = visit.find_graph("body", len(visit.inputs), 1 + len(visit.node.output))
    walk.hold_reads(visit)
    limit, condition, *begins = visit.inputs
    loop = _Loop(walk, visit, body, condition, begins)
    turns = loop.find_turns(limit)
    follows_inputs = any(value is not None and value.from_inputs for value in (limit, condition))
    turn = loop.walk_any_turn(turns)
    if turns.most is not None and loop.never_stops(turn):
        turns = Turns(turns.most, turns.most)
    walk.follows_inputs |= follows_inputs and turns.exact is not None
    stacked = loop.note(turns, turn)
    carried = [_choose_last(turns, begin, end) for begin, end in zip(begins, turn.carried, strict=True)]
    return [*(value.mark_from_inputs() if follows_inputs else value for value in carried), *stacked]


def _read_limit(limit: Value | None) -> int | None:
    """Return how often a loop runs at most; None if the limit is not known, or there is no limit."""
    if limit is None or limit.array is None:
        return None
    number = int(limit.array.item())
    return None if number == _NO_LIMIT else max(number, 0)


@dataclass(frozen=True)
class _Loop:
    """A ``Loop`` that the walk has come to.

    Attributes:
        walk: The walk.
        visit: The visit to its node.
        graph: Its body.
        condition: Whether the first turn begins; None if nothing but the limit ends the loop.
        begins: The values at the first turn that are carried from turn to turn.
    """

    walk: Walk
    visit: Visit
    graph: GraphProto
    condition: Value | None
    begins: Sequence[Value | None]

    def find_turns(self, limit: Value | None) -> Turns:
        """Return how often the body runs, as far as that is known before the walk over it."""
        most = _read_limit(limit)
        if self.condition is None:  # the condition that the body makes is ignored then
            return Turns(most or 0, most)
        is_over = most == 0 or (self.condition.array is not None and not self.condition.is_true)
        return Turns(0, 0 if is_over else most)

    def walk_any_turn(self, turns: Turns) -> _AnyTurn:
        """Walk the body with the facts that hold in every turn.

        The sizes of the first turn are tried first. If a turn returns a value of another size, that size is unknown,
        and the body is walked again, until it returns the sizes that it gets.
        """
        number, condition = self._make_own_values()
        carried = [begin and begin.carry() for begin in self.begins]
        while True:
            body = self.walk.walk_body(self.visit, self.graph, [number, condition, *carried], turns.number_to_count)
            goes_on, *outputs = body.outputs
            handed_on, stacked = outputs[: len(carried)], outputs[len(carried) :]
            common = [
                before and replace(before, type=common_type(before.type, after.type))
                for before, after in zip(carried, handed_on, strict=True)
            ]
            if _list_types(common) == _list_types(carried):
                return _AnyTurn(body.work, goes_on, handed_on, stacked)
            carried = common

    def _make_own_values(self) -> tuple[Value, Value]:
        """Return the number of a turn and its condition, which the loop itself makes for its body; note that it does.

        A loop is noted as two operators: this one before its body, because these two values are alive while the body
        runs, and one after it.
        """
        # A turn begins only while the condition holds, so inside the body it is true. Without one nothing is known.
        true = None if self.condition is None else np.asarray(True)
        condition = Value(next(self.walk.numbers), tensor_type(TensorProto.BOOL, ()), array=true)
        number = Value(next(self.walk.numbers), tensor_type(TensorProto.INT64, ()))
        self.walk.work.append(Executed("Loop", self.walk.node, (), (number, condition), self.visit.times))
        return number, condition

    def never_stops(self, turn: _AnyTurn) -> bool:
        """Return whether nothing but the limit ends the loop, though it has a condition: this is always true."""
        return self.condition is not None and self.condition.is_true and turn.goes_on.is_true

    def note(self, turns: Turns, turn: _AnyTurn) -> list[Value]:
        """Note the work of the body, and the loop itself, which makes the stacked values of all turns; return these."""
        stacked = [stack_turns(self.walk, value, 0, turns.exact) for value in turn.stacked]
        last = () if turns.exact == 0 else (*turn.carried, *turn.stacked)
        if turns.exact is None:
            self.walk.work.add_loop(self._choose_work(turns, turn))
        elif turns.exact > 0:
            self.walk.work.add_loop(turn.work)
        missing = "Loop of an unknown number of turns" if turns.most is None else ""
        self.walk.work.append(Executed("Loop", self.walk.node, last, stacked, self.visit.times, missing=missing))
        return stacked

    def _choose_work(self, turns: Turns, turn: _AnyTurn) -> Work:
        """Return the choice between the work of the body and none: the loop may stop early, or not run."""
        reason = (_MAY_NOT_RUN if turns.most is None else _MAY_STOP).format(name_node(self.visit.node))
        return count_first(turn.work, Work(), self.walk.path, reason)


def _list_types(values: Sequence[Value | None]) -> list[TypeProto | None]:
    return [None if value is None else value.type for value in values]


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
