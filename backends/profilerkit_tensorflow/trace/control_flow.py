"""Operators that run bodies of operators, each with the function that walks over them: calls, conditions and loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from profilerkit.backend_kit.running_order import Body

from .graph_access import body_named, read_attribute
from .loops import walk_loop
from .ownership import CALLS, Owner
from .values import Scope, Value, Work, count_one
from .walk import Handler, Walk

__all__ = ["HANDLERS"]


_DEAREST = "a condition depends on values that the graph does not tell: the most expensive of its branches is counted"


def _walk_call(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the body of a function that an operator calls."""
    if read_attribute(operator, "_XlaMustCompile"):
        walk.notes.add("what functions compiled by XLA allocate inside is not in the memory footprint")
    graph = body_named(scope.graph, operator.get_attr("f").name)
    inside = walk.enter(graph, walk.read_inputs(operator, scope), operator, scope)
    inside.needed_outputs = scope.find_used_outputs(operator)
    walk.bind(operator, walk.walk_body(inside), scope)


def _walk_branches(walk: Walk, operator: Any, scope: Scope) -> None:
    """Walk the branches of a condition that may be taken, and count the most expensive one.

    A fact of one branch alone is not known after the condition: a number that one branch returns would decide further
    conditions and loops as if that branch were always taken.
    """
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
    """Return the outputs of a condition: the outputs of its dearest branch, with the facts that all branches share.

    A number that all branches return follows the inputs if that of one branch does.
    """
    outputs, folding = list(dearest.outputs), walk.folding
    for index in sorted(used):
        value, returned = outputs[index], [body.outputs[index] for body in bodies]
        common, constant = reduce(Value.common, returned), folding.find_common_constant(returned)
        loses_constant = constant is None and folding.constant(value) is not None
        others_follow = not folding.follows(value) and any(map(folding.follows, returned))
        if loses_constant or others_follow or not value.is_known_as(common):
            outputs[index] = walk.hand_on(value, common, owner)
            folding.give_result(outputs[index], constant, returned)
    return outputs


#: The function that walks over each of these operators.
HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(CALLS, _walk_call),
    **dict.fromkeys(("While", "StatelessWhile"), walk_loop),
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), _walk_branches),
}
