"""Loops: the walk goes over the body and the condition once, with the facts that are the same in every turn.

A body counts as often as its loop runs (`turns.py` finds the number), also up to a limit before which it may stop. If
the number of turns is not known, one is counted, and the loop is named as not counted. The known facts of a loop::

    i, y, w = 0, x, weights           begins  the values of its variables before the first turn
    while i < 10:                     turns   10; with ``i < 10 and y > 0`` at most 10, it may stop before
        i, y, w = i + 1, y @ w, w     steps   1, None, 0: a counter, a result, a variable that never changes
    return y                          needed  y, which is used; i, which the condition reads; w, which makes y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profilerkit.backend_kit.running_order import Body, Turns, note_apart

from .graph_access import body_named
from .ownership import Owner
from .running_order import find_needed_variables
from .turns import advance_counter, count_turns, find_steps, is_loop_counter
from .values import Scope, Value, Work, count_one
from .walk import Walk

__all__ = ["walk_loop"]

_MAY_STOP = "a loop may stop before it reaches its limit; it is counted up to that"
_MAY_NOT_RUN = "a loop whose number of turns is not known may not run at all; it is counted once"


def walk_loop(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the body and the condition of a loop once, for all turns together."""
    loop = _read_loop(walk, operator, scope)
    if loop.turns.most is None:
        walk.work.missed[f"{operator.type} (how often it runs is not known; counted once)"] += 1
    walk.hold(loop.begins, loop.owner)
    if loop.turns.most == 0:
        _walk_condition(walk, loop, loop.begins)
        walk.bind(operator, loop.begins, scope)
        return
    with note_apart(walk) as in_turns:
        results = _walk_any_turn(walk, loop)
        _walk_condition(walk, loop, _hand_to_condition(walk, loop, results))
    work = Work()
    work.add_loop(in_turns)
    if loop.turns.exact is None:  # all its turns are counted, or there is none, as nothing is known
        reason = _MAY_NOT_RUN if loop.turns.most is None else _MAY_STOP
        work = count_one(work, [Work()], reason)
    walk.work.add(work)
    outputs = [_hand_out(walk, loop, index, result) for index, result in enumerate(results)]
    walk.bind(operator, outputs, scope)


@dataclass(frozen=True)
class _Loop:
    """A loop that the walk has come to.

    Attributes:
        operator: Its operator.
        scope: The scope of the operator.
        owner: The layer that it belongs to.
        body: The graph that it repeats.
        condition: The graph that decides whether it goes on.
        begins: The values of its variables before the first turn.
        steps: The number that each turn adds to each variable: 0 if nothing; None if it is not known.
        turns: The number of its turns.
        needed: The indices of the variables that its condition, its needed results, or operators after it read.
    """

    operator: Any
    scope: Scope
    owner: Owner
    body: Any
    condition: Any
    begins: Sequence[Value]
    steps: Sequence[float | None]
    turns: Turns
    needed: set[int]

    def find_certain_turns(self, index: int) -> int | None:
        """Return how many turns a variable has gone through at the end; None if the number is not known.

        It is not known in a loop that may stop before its limit. For TensorFlow's own counter the limit is taken: the
        gradient of the loop runs as often as that counter says, and is counted up to the limit like the loop itself.
        """
        is_certain = self.turns.exact is not None or is_loop_counter(self.body.inputs[index])
        return self.turns.most if is_certain else None


def _read_loop(walk: Walk, operator: Any, scope: Scope) -> _Loop:
    """Return the facts that the walk knows of a loop before it goes over its body."""
    body = body_named(scope.graph, operator.get_attr("body").name)
    condition = body_named(scope.graph, operator.get_attr("cond").name)
    begins, owner = walk.read_inputs(operator, scope), walk.find_owner(operator, scope)
    steps = find_steps(walk.folding, body, begins)
    before_the_first = walk.enter(condition, begins, operator, scope)
    before_the_first.bind_arguments()
    turns = count_turns(walk.folding, before_the_first, steps)
    needed = find_needed_variables(condition, body, scope.find_used_outputs(operator))
    return _Loop(operator, scope, owner, body, condition, begins, steps, turns, needed)


def _walk_any_turn(walk: Walk, loop: _Loop) -> list[Value]:
    """Walk the body with the facts that hold in every turn; return the values of the loop's variables after a turn.

    The walk is first tried with the values of the first turn: say y of shape (2, 3). If a turn makes (2, 6) of it, the
    next try is with (2, None), the common part of both shapes. A try is final if its results do not contradict it.
    """
    carried = list(loop.begins)
    while True:
        formulas_before = set(walk.formulas_used)
        turn = _walk_turn(walk, loop, carried)
        common = list(carried)
        for index in loop.needed:
            common[index] = carried[index].common(turn.outputs[index])
        if all(before.is_known_as(after) for before, after in zip(carried, common, strict=True)):
            walk.work.add(turn.work)
            return list(turn.outputs[: len(carried)])
        # The work of this try is dropped, and so are the formulas that have added to it: they count in the next one.
        walk.formulas_used = formulas_before
        carried = common


def _walk_turn(walk: Walk, loop: _Loop, carried: Sequence[Value]) -> Body[Work, Value]:
    """Walk the body with variables that have the known facts of ``carried``; the work is not added so far."""
    with note_apart(walk) as work:
        arguments = [
            begin if step == 0 else walk.hand_on(begin, value, loop.owner)
            for begin, step, value in zip(loop.begins, loop.steps, carried, strict=True)
        ]
        inside = walk.enter(loop.body, arguments, loop.operator, loop.scope, times=loop.turns.number_to_count)
        inside.needed_outputs = loop.needed
        results = walk.walk_body(inside)
    return Body(work, results)


def _hand_to_condition(walk: Walk, loop: _Loop, results: Sequence[Value]) -> list[Value]:
    """Return the variables with the facts that hold at every test: before the first turn, and after each."""
    return [
        walk.hand_on(before, before.common(after), loop.owner)
        for before, after in zip(loop.begins, results, strict=True)
    ]


def _walk_condition(walk: Walk, loop: _Loop, tested: Sequence[Value]) -> None:
    """Walk the condition, which runs once more than the body, and keep it if it costs anything.

    Of a loop whose number of turns is not known it is counted once, as the body is.
    """
    tests = 1 if loop.turns.most is None else loop.turns.most + 1
    work = walk.walk_apart(walk.enter(loop.condition, tested, loop.operator, loop.scope, times=tests)).work
    if work.count_missing() or any(work.price):
        walk.work.add(work)


def _hand_out(walk: Walk, loop: _Loop, index: int, result: Value) -> Value:
    """Return the value of a variable after the loop, if each turn makes ``result`` of it.

    - A variable that never changes keeps its value.
    - If the number of turns is certain, a counter has its last number: 10 after 10 turns from 0 by 1.
    - If it is uncertain, a number that each turn makes is known only if the loop began with the same number: there may
      be no turn at all.
    - Any other value is the result of the last turn.
    """
    before, step, turns = loop.begins[index], loop.steps[index], loop.find_certain_turns(index)
    if step == 0:
        return before
    start = walk.folding.constant(before)
    if turns is not None and step is not None and start is not None and start.size == 1:
        number = advance_counter(start, step, turns)
    elif turns is None and walk.folding.constant(result) is not None:
        number = walk.folding.find_common_constant([before, result])
    else:
        return result
    after = walk.hand_on(result, result, loop.owner)
    after.constant = number
    return after
