"""Operators that run bodies of operators: calls of functions, conditions and loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from profilerkit.backend_kit.graph_work import Body, Turns, count_one, make_choices, note_apart

from .folding import Folding
from .graph_access import body_named, find_needed_variables, forward_function, read_attribute
from .ownership import Owner
from .turns import advance_counter, count_turns, find_steps, is_loop_counter
from .values import Executed, Scope, Value, Work
from .walk import Handler, Walk

__all__ = ["HANDLERS"]

#: Operators that call a function.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def _walk_call(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the body of a function that an operator calls."""
    if read_attribute(operator, "_XlaMustCompile"):
        walk.notes.add("what functions compiled by XLA allocate inside is not in the memory footprint")
    graph = body_named(scope.graph, operator.get_attr("f").name)
    owner = _find_owner(walk, operator, graph, scope)
    used = scope.find_used_outputs(operator)
    results = walk.walk_body(Scope(graph, walk.read_inputs(operator, scope), scope, owner, scope.times, used))
    walk.bind(operator, results, scope)


def _find_owner(walk: Walk, operator: Any, graph: Any, scope: Scope) -> Owner:
    """Return the owner of a called function; a gradient's is that of the call that it is the gradient of.

    The gradient's function names the function of that call, and reads what the call made.
    """
    forward = forward_function(scope.graph, operator.get_attr("f").name)
    if forward:
        walk.ownership.note_gradient(graph, body_named(scope.graph, forward))
        for read in operator.inputs:
            if read.op.type in _CALLS and read.op.get_attr("f").name == forward:
                return walk.find_owner(read.op, scope).of_gradient
    return walk.find_owner(operator, scope)


# Conditions: every branch that may be taken is walked, and the most expensive one counts ------------------------------

# What is true in one branch alone is not known after the condition: a number that one branch returns would decide
# further conditions and loops as if that branch were always taken.

_DEAREST = "a condition depends on values that the graph does not tell: the most expensive of its branches is counted"


def _walk_branches(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the branches of a condition that may be taken, and count the most expensive one."""
    condition, *arguments = walk.read_inputs(operator, scope)
    owner, used = walk.find_owner(operator, scope), scope.find_used_outputs(operator)
    walk.hold(arguments, owner)
    bodies = []
    for name in _list_branches(operator, walk.folding.decide(condition)):
        graph = body_named(scope.graph, name)
        bodies.append(walk.walk_apart(Scope(graph, arguments, scope, owner, scope.times, used)))
    dearest = max(bodies, key=lambda body: (body.work.price, len(body.work.operators)))
    others = [body for body in bodies if body is not dearest]
    walk.work.add(_count_one(dearest, others, _DEAREST, sorted(used), owner) if others else dearest.work)
    walk.bind(operator, _agree_on_outputs(walk, bodies, dearest, used, owner), scope)


def _list_branches(operator: Any, chosen: Any) -> list[str]:
    """Return the functions of the branches that may be taken; only one where the ``chosen`` one is known, not None."""
    if operator.type.endswith("Case"):
        names = [function.name for function in operator.get_attr("branches")]
        if chosen is None:
            return names
        index = int(chosen)
        return [names[index] if 0 <= index < len(names) else names[-1]]  # the last one is for all other numbers
    then, otherwise = operator.get_attr("then_branch").name, operator.get_attr("else_branch").name
    if chosen is None:
        return [then, otherwise]
    return [then if bool(chosen) else otherwise]


def _agree_on_outputs(
    walk: Walk, bodies: Sequence[Body[Work, Value]], dearest: Body[Work, Value], used: set[int], owner: Owner
) -> list[Value]:
    """Return the outputs of a condition: those of its dearest branch, with what is known of them in all branches."""
    outputs = list(dearest.outputs)
    if len(bodies) == 1:
        return outputs
    for index in sorted(used):
        common = _agree(walk.folding, outputs[index], [body.outputs[index] for body in bodies])
        if common is not outputs[index]:
            outputs[index] = walk.hand_on(outputs[index], common, owner)
            outputs[index].constant = common.constant
    return outputs


# Loops: the walk goes over the body and the condition once, with what is the same in every turn -----------------------

# A body counts as often as its loop runs (`turns`), also up to a limit before which it may stop. Where the number of
# turns is not known, one is counted, and the loop is named as not counted. What is known of a loop, by an example::
#
#     i, y, w = 0, x, weights           begins  the values of its variables before the first turn
#     while i < 10:                     turns   10; with ``i < 10 and y > 0`` at most 10, it may stop before
#         i, y, w = i + 1, y @ w, w     steps   1, None, 0: a counter, a result, a variable that never changes
#     return y                          needed  y, which is used; i, which the condition reads; w, which makes y

_MAY_STOP = "a loop may stop before it reaches its limit; it is counted up to that"
_MAY_NOT_RUN = "a loop whose number of turns is not known may not run at all; it is counted once"


@dataclass(frozen=True)
class _Loop:
    """A loop that the walk has come to.

    Attributes:
        scope: The scope of its operator.
        owner: The layer that it belongs to.
        body: The graph that it repeats.
        condition: The graph that decides whether it goes on.
        begins: The values of its variables before the first turn.
        steps: What each turn adds to each variable: 0 if nothing; None where that is not known.
        turns: How often it runs.
        needed: The indices of the variables that its condition, its needed results, or what follows it reads.
    """

    scope: Scope
    owner: Owner
    body: Any
    condition: Any
    begins: Sequence[Value]
    steps: Sequence[float | None]
    turns: Turns
    needed: set[int]

    def find_certain_turns(self, index: int) -> int | None:
        """Return how many turns a variable has gone through at the end; None where that is not known.

        It is not known in a loop that may stop before its limit. For TensorFlow's own counter the limit is taken: the
        gradient of the loop runs as often as that counter says, and is counted up to the limit as the loop itself is.
        """
        is_certain = self.turns.exact is not None or is_loop_counter(self.body.inputs[index])
        return self.turns.most if is_certain else None


def _walk_loop(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the body and the condition of a loop once, for all turns together."""
    loop = _read_loop(walk, operator, scope)
    if loop.turns.most is None:
        walk.work.missed[f"{operator.type} (how often it runs is not known; counted once)"] += 1
    if loop.turns.most == 0:
        walk.bind(operator, loop.begins, scope)
        return
    walk.hold(loop.begins, loop.owner)
    with note_apart(walk) as in_turns:
        results = _walk_any_turn(walk, loop)
        _walk_condition(walk, loop, results)
    work = Work()
    work.add_loop(in_turns)
    walk.work.add(_count_turns_or_none(work, loop, results) if loop.turns.exact is None else work)
    outputs = [_hand_out(walk, loop, index, result) for index, result in enumerate(results)]
    walk.bind(operator, outputs, scope)


def _read_loop(walk: Walk, operator: Any, scope: Scope) -> _Loop:
    """Return what the walk knows of a loop before it goes over its body."""
    body = body_named(scope.graph, operator.get_attr("body").name)
    condition = body_named(scope.graph, operator.get_attr("cond").name)
    begins, owner = walk.read_inputs(operator, scope), walk.find_owner(operator, scope)
    steps = find_steps(walk.folding, body, begins)
    before_the_first = Scope(condition, begins, scope, owner)
    before_the_first.bind_arguments()
    turns = count_turns(walk.folding, before_the_first, steps)
    needed = find_needed_variables(condition, body, scope.find_used_outputs(operator))
    return _Loop(scope, owner, body, condition, begins, steps, turns, needed)


def _walk_any_turn(walk: Walk, loop: _Loop) -> list[Value]:
    """Walk the body with what is known in every turn; return the values that a turn makes of the loop's variables.

    The walk is tried with what the first turn gets: say y of shape (2, 3). If a turn makes (2, 6) of it, the next try
    is with (2, None), which is what two turns have in common. A try counts once its results tell nothing else.
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
    """Walk the body with variables of which is known what is known of ``carried``; the work is not added so far."""
    with note_apart(walk) as work:
        arguments = [
            begin if step == 0 else walk.hand_on(begin, value, loop.owner)
            for begin, step, value in zip(loop.begins, loop.steps, carried, strict=True)
        ]
        times = loop.scope.times * loop.turns.number_to_count
        results = walk.walk_body(Scope(loop.body, arguments, loop.scope, loop.owner, times, loop.needed))
    return Body(work, results)


def _walk_condition(walk: Walk, loop: _Loop, results: Sequence[Value]) -> None:
    """Walk the condition, which runs once more than the body, and keep it if it costs anything.

    Of a loop whose number of turns is not known it is counted once, as the body is.
    """
    tests = 1 if loop.turns.most is None else loop.turns.most + 1
    arguments = [
        walk.hand_on(before, before.common(after), loop.owner)
        for before, after in zip(loop.begins, results, strict=True)
    ]
    scope = Scope(loop.condition, arguments, loop.scope, loop.owner, loop.scope.times * tests)
    work = walk.walk_apart(scope).work
    if work.count_missing() or any(work.price):
        walk.work.add(work)


def _count_turns_or_none(work: Work, loop: _Loop, results: Sequence[Value]) -> Work:
    """Return the work of a loop that may stop: all its turns are counted, or there is none, as nothing is known."""
    reason = _MAY_NOT_RUN if loop.turns.most is None else _MAY_STOP
    return _count_one(Body(work, results), [Body(Work(), loop.begins)], reason, sorted(loop.needed), loop.owner)


def _hand_out(walk: Walk, loop: _Loop, index: int, result: Value) -> Value:
    """Return the value that a variable has after the loop, where each turn makes ``result`` of it.

    - One that never changes is what it was.
    - Where the number of turns is certain, a counter has its last number: 10 after 10 turns from 0 by 1.
    - Where it is not, a number that each turn makes is known only if the loop began with the same one: there may be no
      turn at all.
    - Anything else is the result of the last turn.
    """
    before, step = loop.begins[index], loop.steps[index]
    if step == 0:
        return before
    turns = loop.find_certain_turns(index)
    start = walk.folding.constant(before)
    if turns is None and walk.folding.constant(result) is not None:
        number = _agree_on_constant(walk.folding, [before, result])
    elif turns is not None and step is not None and start is not None and start.size == 1:
        number = advance_counter(start, step, turns)
    else:
        return result
    after = walk.hand_on(result, result, loop.owner)
    after.constant = number
    return after


# What a model may do instead of what is counted -----------------------------------------------------------------------


def _count_one(
    counted: Body[Work, Value], others: Sequence[Body[Work, Value]], reason: str, used: Sequence[int], owner: Owner
) -> Work:
    """Return the work of one of several bodies, and how the others differ, as `graph_work.count_one`.

    Of the outputs of the bodies those at the indices ``used`` are read.
    """

    def take(body: Body[Work, Value]) -> Body[Work, Value]:
        return Body(body.work, [body.outputs[index] for index in used])

    return count_one(
        take(counted),
        [take(other) for other in others],
        reason,
        hand_on=lambda value, result: Executed.of_handing_on(value, result.describe(), owner),
        choose=lambda works, reason: make_choices(works, reason, Work.as_branch),
    )


def _agree(folding: Folding, value: Value, others: Sequence[Value]) -> Value:
    """Return what is known about a value that may also be one of others; the value itself if they all agree."""
    common = reduce(Value.common, others, value)
    constant = _agree_on_constant(folding, [value, *others])
    if value.is_known_as(common) and (folding.constant(value) is None or constant is not None):
        return value
    common.constant = constant
    return common


def _agree_on_constant(folding: Folding, values: Sequence[Value]) -> Any:
    """Return the array if all values are known to be the same one, else None."""
    first, *others = (folding.constant(value) for value in values)
    if first is None or any(other is None or not np.array_equal(first, other) for other in others):
        return None
    return first


#: What walks over each of these operators.
HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(_CALLS, _walk_call),
    **dict.fromkeys(("While", "StatelessWhile"), _walk_loop),
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), _walk_branches),
}
