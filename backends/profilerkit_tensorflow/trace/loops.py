"""Loops: the walk goes over the body and the condition once, with what is the same in every run.

A body counts as often as its loop runs (`trips`), also up to a limit before which it may stop. Where the number of runs
is not known, one is counted, and the loop is named as not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from profilerkit.backend_kit.branch_memory import Fork, Side
from profilerkit.backend_kit.graph_work import note_apart
from profilerkit.trace.bounds import Branch, Choice

from .alternatives import agree_on_constant, hand_on_instead
from .graph_access import body_named
from .ownership import Owner
from .reachable_operators import find_needed_variables
from .trips import Trips, count_trips, counter_after, counter_steps, counts_runs
from .values import Scope, Value
from .walk import Walk
from .work import Work

__all__ = ["walk_loop"]

_MAY_STOP = "a loop may stop before it reaches its limit; it is counted up to that"
_MAY_NOT_RUN = "a loop whose number of runs is not known may not run at all; it is counted once"


@dataclass(frozen=True)
class _Loop:
    """A loop that the walk has come to.

    Attributes:
        scope: The scope of its operator.
        owner: The layer that it belongs to.
        body: The graph that it repeats.
        condition: The graph that decides whether it goes on.
        begins: The values of its variables before the first run.
        steps: What each run adds to each variable: 0 if nothing; None where that is not known.
        trips: How often it runs.
    """

    scope: Scope
    owner: Owner
    body: Any
    condition: Any
    begins: Sequence[Value]
    steps: Sequence[float | None]
    trips: Trips


def walk_loop(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the body and the condition of a loop once, for all runs together."""
    loop = _read_loop(walk, operator, scope)
    if loop.trips.most is None:
        walk.work.missed[f"{operator.type} (how often it runs is not known; counted once)"] += 1
    if loop.trips.most == 0:
        walk.bind(operator, loop.begins, scope)
        return
    needed = find_needed_variables(loop.condition, loop.body, scope.find_used_outputs(operator))
    with note_apart(walk) as runs:
        results = _walk_any_run(walk, loop, needed)
        _walk_condition(walk, loop, results)
    work = Work()
    work.add_loop(runs)
    walk.work.add(_count_runs_or_none(work, loop, results) if loop.trips.may_stop else work)
    outputs = [_hand_out(walk, loop, index, result) for index, result in enumerate(results)]
    walk.bind(operator, outputs, scope)


def _read_loop(walk: Walk, operator: Any, scope: Scope) -> _Loop:
    """Return what the walk knows of a loop before it goes over its body."""
    body = body_named(scope.graph, operator.get_attr("body").name)
    condition = body_named(scope.graph, operator.get_attr("cond").name)
    begins, owner = walk.read_inputs(operator, scope), walk.find_owner(operator, scope)
    steps = counter_steps(walk.folding, body, begins)
    before_the_first = Scope(condition, begins, scope, owner)
    before_the_first.bind_arguments()
    return _Loop(scope, owner, body, condition, begins, steps, count_trips(walk.folding, before_the_first, steps))


def _walk_any_run(walk: Walk, loop: _Loop, needed: set[int]) -> list[Value]:
    """Walk the body with what is known in every run; return the values that a run makes of the loop's variables.

    What the first run gets is tried first; what a run changes of a variable's shape is not known.
    """
    times = loop.scope.times * (loop.trips.most or 1)
    carried = list(loop.begins)
    while True:
        formulas_so_far = set(walk.formulas_used)
        with note_apart(walk) as work:
            arguments = []
            for begin, step, value in zip(loop.begins, loop.steps, carried, strict=True):
                arguments.append(begin if step == 0 else walk.hand_on(begin, value, loop.owner))
            results = walk.walk_body(Scope(loop.body, arguments, loop.scope, loop.owner, times, needed))
        common = [
            value.common(result) if index in needed else value
            for index, (value, result) in enumerate(zip(carried, results, strict=False))
        ]
        if all(value.is_known_as(same) for value, same in zip(carried, common, strict=True)):
            walk.work.add(work)
            return results[: len(carried)]
        walk.formulas_used = formulas_so_far
        carried = common


def _walk_condition(walk: Walk, loop: _Loop, results: Sequence[Value]) -> None:
    """Walk the condition, which runs once more than the body, and keep it if it costs anything."""
    tests = 1 if loop.trips.most is None else loop.trips.most + 1
    arguments = [
        walk.hand_on(before, before.common(after), loop.owner)
        for before, after in zip(loop.begins, results, strict=True)
    ]
    scope = Scope(loop.condition, arguments, loop.scope, loop.owner, loop.scope.times * tests)
    work = walk.walk_apart(scope).work
    if work.count_missing() or any(work.price):
        walk.work.add(work)


def _count_runs_or_none(work: Work, loop: _Loop, results: Sequence[Value]) -> Work:
    """Return the work of a loop that may stop: all its runs are counted, or there is none, as nothing is known."""
    reason = _MAY_NOT_RUN if loop.trips.most is None else _MAY_STOP
    every = work.as_branch()
    none = Side(tuple(hand_on_instead(work, loop.begins, results)))
    return replace(
        work,
        choices=[Choice((every, Branch({})), 0, reason)] if every.work else [],
        forks=[Fork(0, work.as_side(), (none,), reason)],
    )


def _hand_out(walk: Walk, loop: _Loop, index: int, result: Value) -> Value:
    """Return what the loop makes of a variable in all its runs: of a counter its last number, where that is known."""
    before, step = loop.begins[index], loop.steps[index]
    if step == 0:
        return before
    runs = loop.trips.most
    is_certain = not loop.trips.may_stop or counts_runs(loop.body.inputs[index])
    start = walk.folding.constant(before)
    if runs is None or not is_certain:
        if walk.folding.constant(result) is None:
            return result
        constant = agree_on_constant(walk.folding, [before, result])  # it may not have run at all
    elif start is None or start.size != 1 or step is None:
        return result
    else:
        constant = counter_after(start, step, runs)
    result = walk.hand_on(result, result, loop.owner)
    result.constant = constant
    return result
