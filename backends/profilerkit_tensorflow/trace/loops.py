"""Loops: the walk goes over the body and the condition once, with the facts that are the same in every turn.

A body counts as often as its loop runs (`turns.py` finds the number), also up to a limit before which it may stop. If
the number of turns is not known, one is counted, and the loop is named as not counted. The known facts of a loop::

    i, y, w = 0, x, weights           begins  the values of its variables before the first turn
    while i < 10:                     turns   10; with a further condition ``y > 0`` at most 10, it may stop before
        i, y, w = i + 1, y @ w, w     steps   1, None, 0: a counter, a result, a variable that never changes
    return y                          needed  y, which is used; i, which the condition reads; w, which makes y
"""

from __future__ import annotations

from collections.abc import Sequence
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
    loop = _Loop(walk, operator, scope)
    if loop.turns.most is None:
        walk.work.missed[f"{operator.type} (how often it runs is not known; counted once)"] += 1
    walk.hold(loop.begins, loop.owner)
    if loop.turns.most == 0:
        loop.walk_condition(loop.begins)
        walk.bind(operator, loop.begins, scope)
        return
    with note_apart(walk) as in_turns:
        results = loop.walk_any_turn()
        at_tests = zip(loop.begins, results, strict=True)  # before the first turn, and after each
        loop.walk_condition([walk.hand_on(before, before.common(after), loop.owner) for before, after in at_tests])
    work = Work()
    work.add_loop(in_turns)
    if loop.turns.exact is None:  # all its turns are counted, or there is none, as nothing is known
        reason = _MAY_NOT_RUN if loop.turns.most is None else _MAY_STOP
        work = count_one(work, [Work()], reason)
    walk.work.add(work)
    walk.bind(operator, [loop.hand_out(index, result) for index, result in enumerate(results)], scope)


class _Loop:
    """A loop that the walk has come to, with the facts that are known before it goes over the body.

    Attributes:
        owner: The layer that it belongs to.
        begins: The values of its variables before the first turn.
        turns: The number of its turns.
    """

    def __init__(self, walk: Walk, operator: Any, scope: Scope) -> None:
        self._walk, self._operator, self._scope = walk, operator, scope
        self._body = body_named(scope.graph, operator.get_attr("body").name)
        self._condition = body_named(scope.graph, operator.get_attr("cond").name)
        self.owner: Owner = walk.find_owner(operator, scope)
        self.begins: Sequence[Value] = walk.read_inputs(operator, scope)
        #: The number that each turn adds to each variable: 0 if nothing; None if it is not known.
        self._steps = find_steps(walk.folding, self._body, self.begins)
        before_the_first = walk.enter(self._condition, self.begins, operator, scope)
        before_the_first.bind_arguments()
        self.turns: Turns = count_turns(walk.folding, before_the_first, self._steps)
        #: The indices of the variables that the condition, the needed results, or operators after the loop read.
        self._needed = find_needed_variables(self._condition, self._body, scope.find_used_outputs(operator))

    def walk_any_turn(self) -> list[Value]:
        """Walk the body with the facts that hold in every turn; return the values of the variables after a turn.

        The walk is first tried with the values of the first turn: say y of shape (2, 3). If a turn makes (2, 6) of it,
        the next try is with (2, None), the common part of both shapes. A try is final if its results do not contradict
        it.
        """
        walk, carried = self._walk, list(self.begins)
        while True:
            formulas_before = set(walk.formulas_used)
            turn = self._walk_turn(carried)
            common = list(carried)
            for index in self._needed:
                common[index] = carried[index].common(turn.outputs[index])
            if all(before.is_known_as(after) for before, after in zip(carried, common, strict=True)):
                walk.work.add(turn.work)
                return list(turn.outputs[: len(carried)])
            # The work of this try is dropped, and so are the formulas that have added to it: they count in the next.
            walk.formulas_used = formulas_before
            carried = common

    def _walk_turn(self, carried: Sequence[Value]) -> Body[Work, Value]:
        """Walk the body with variables that have the known facts of ``carried``; the work is not added so far."""
        walk = self._walk
        with note_apart(walk) as work:
            arguments = [
                begin if step == 0 else walk.hand_on(begin, value, self.owner)
                for begin, step, value in zip(self.begins, self._steps, carried, strict=True)
            ]
            times = self.turns.number_to_count
            inside = walk.enter(self._body, arguments, self._operator, self._scope, times=times)
            inside.needed_outputs = self._needed
            results = walk.walk_body(inside)
        return Body(work, results)

    def walk_condition(self, tested: Sequence[Value]) -> None:
        """Walk the condition, which runs once more than the body, and keep it if it costs anything.

        Of a loop whose number of turns is not known it is counted once, as the body is.
        """
        tests = 1 if self.turns.most is None else self.turns.most + 1
        inside = self._walk.enter(self._condition, tested, self._operator, self._scope, times=tests)
        work = self._walk.walk_apart(inside).work
        if work.count_missing() or any(work.price):
            self._walk.work.add(work)

    def hand_out(self, index: int, result: Value) -> Value:
        """Return the value of a variable after the loop, if each turn makes ``result`` of it.

        - A variable that never changes keeps its value.
        - If the number of turns is certain, a counter has its last number: 10 after 10 turns from 0 by 1. It is certain
          for TensorFlow's own counter too, which the limit is taken for: the gradient of the loop runs as often as that
          counter says, and is counted up to the limit like the loop itself.
        - If it is uncertain, a number that each turn makes is known only if the loop began with the same number: there
          may be no turn at all.
        - Any other value is the result of the last turn.
        """
        before, step, folding = self.begins[index], self._steps[index], self._walk.folding
        if step == 0:
            return before
        is_certain = self.turns.exact is not None or is_loop_counter(self._body.inputs[index])
        turns, start = self.turns.most if is_certain else None, folding.constant(before)
        if turns is not None and step is not None and start is not None and start.size == 1:
            number = advance_counter(start, step, turns)
        elif turns is None and folding.constant(result) is not None:
            number = folding.find_common_constant([before, result])
        else:
            return result
        after = self._walk.hand_on(result, result, self.owner)
        folding.give_result(after, number, [before, result])
        return after
