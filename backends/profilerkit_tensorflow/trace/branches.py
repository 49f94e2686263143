"""Conditions: every branch that may be taken is walked, and the most expensive one counts.

A fact of one branch alone is not known after the condition: a number that one branch returns would decide further
conditions and loops as if that branch were always taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from profilerkit.backend_kit import graph_branches
from profilerkit.backend_kit.graph_branches import make_choices
from profilerkit.backend_kit.running_order import Body

from .graph_access import body_named
from .ownership import Owner
from .values import Scope, Value, Work
from .walk import Walk

__all__ = ["count_one", "walk_branches"]

_DEAREST = "a condition depends on values that the graph does not tell: the most expensive of its branches is counted"


def walk_branches(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the branches of a condition that may be taken, and count the most expensive one."""
    condition, *arguments = walk.read_inputs(operator, scope)
    owner, used = walk.find_owner(operator, scope), scope.find_used_outputs(operator)
    walk.hold(arguments, owner)
    bodies = []
    for name in _list_branches(operator, walk.folding.decide(condition)):
        inside = walk.enter(body_named(scope.graph, name), arguments, operator, scope)
        inside.needed_outputs = used
        bodies.append(walk.walk_apart(inside))
    dearest = max(bodies, key=lambda body: (body.work.price, len(body.work.operators)))
    others = [body.work for body in bodies if body is not dearest]
    walk.work.add(count_one(dearest.work, others, _DEAREST) if others else dearest.work)
    walk.bind(operator, _agree_on_outputs(walk, bodies, dearest, used, owner), scope)


def _list_branches(operator: Any, chosen: Any) -> list[str]:
    """Return the functions of the branches that may be taken; only one if ``chosen`` is not None."""
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
    """Return the outputs of a condition: the outputs of its dearest branch, with the facts that all branches share."""
    outputs, folding = list(dearest.outputs), walk.folding
    for index in sorted(used):
        value, returned = outputs[index], [body.outputs[index] for body in bodies]
        common, constant = reduce(Value.common, returned), folding.find_common_constant(returned)
        loses_constant = constant is None and folding.constant(value) is not None
        if loses_constant or not value.is_known_as(common):
            outputs[index] = walk.hand_on(value, common, owner)
            outputs[index].constant = constant
    return outputs


def count_one(counted: Work, others: Sequence[Work], reason: str) -> Work:
    """Return the work of one of several bodies, and how the others differ, like `graph_branches.count_one`."""
    choices = make_choices([work.as_branch() for work in (counted, *others)], reason)
    return graph_branches.count_one(counted, others, choices, reason)
