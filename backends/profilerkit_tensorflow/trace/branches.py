"""Conditions: every branch that may be taken is walked, and the most expensive one counts.

What is true in one branch alone is not known after the condition: a number that one branch returns would decide further
conditions and loops as if that branch were always taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

from profilerkit.backend_kit.graph_work import Body
from profilerkit.trace.bounds import Choice

from .alternatives import agree, make_graph_fork
from .graph_access import body_named
from .ownership import Owner
from .values import Scope, Value, Work
from .walk import Walk

__all__ = ["walk_branches"]

_DEAREST = "a condition depends on values that the graph does not tell: the most expensive of its branches is counted"


def walk_branches(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the branches of a condition that may be taken, and count the most expensive one."""
    condition, *arguments = walk.read_inputs(operator, scope)
    owner, used = walk.find_owner(operator, scope), scope.find_used_outputs(operator)
    walk.hold(arguments, owner)
    bodies = []
    for name in _list_branches(operator, walk.folding.decide(condition)):
        graph = body_named(scope.graph, name)
        bodies.append(walk.walk_apart(Scope(graph, arguments, scope, owner, scope.times, used)))
    dearest = max(bodies, key=lambda body: (body.work.price, len(body.work.operators)))
    walk.work.add(_count_dearest(bodies, dearest, sorted(used), owner))
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


def _count_dearest(
    bodies: Sequence[Body[Work, Value]], dearest: Body[Work, Value], used: Sequence[int], owner: Owner
) -> Work:
    """Return the work of the dearest of several bodies, and how the others differ.

    Operators without a formula are named for all bodies. Of their outputs those at the indices ``used`` are read.
    """
    work = dearest.work
    if len(bodies) == 1:
        return work
    counted, *others = (
        Body(body.work, [body.outputs[index] for index in used])
        for body in (dearest, *(body for body in bodies if body is not dearest))
    )
    branches = tuple(body.work.as_branch() for body in bodies)
    are_alike = all(branch == branches[0] for branch in branches)
    missing = reduce(or_, (body.work.count_missing() for body in bodies))
    return replace(
        work,
        parts=[make_graph_fork(counted, others, _DEAREST, owner)],
        choices=work.choices if are_alike else [Choice(branches, bodies.index(dearest), _DEAREST)],
        missed=work.missed + (missing - work.count_missing()),
    )


def _agree_on_outputs(
    walk: Walk, bodies: Sequence[Body[Work, Value]], dearest: Body[Work, Value], used: set[int], owner: Owner
) -> list[Value]:
    """Return the outputs of a condition: those of its dearest branch, with what is known of them in all branches."""
    outputs = list(dearest.outputs)
    if len(bodies) == 1:
        return outputs
    for index in sorted(used):
        common = agree(walk.folding, outputs[index], [body.outputs[index] for body in bodies])
        if common is not outputs[index]:
            outputs[index] = walk.hand_on(outputs[index], common, owner)
            outputs[index].constant = common.constant
    return outputs
