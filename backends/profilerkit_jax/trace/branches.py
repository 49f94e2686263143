"""Branches: of which the given inputs do not tell the one that runs, the dearest is counted.

The walk goes over each branch apart. What the others do instead is kept with the work of the one that is counted: the
two ends of every count, and of the bytes alive, follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.backend_kit.graph_work import Body, make_fork, note_apart

from ..compat import parameters
from .frames import Context
from .values import Value
from .walk import Walk
from .work import Executed, PendingChoice, Work

__all__ = ["count_one", "walk_body", "walk_cond"]

_DEAREST = "which of {} branches of a cond runs is known only while it runs; the dearest is counted"


def walk_body(walk: Walk, jaxpr: Any, inputs: Sequence[Value], context: Context) -> Body[Work, Value]:
    """Go over a jaxpr inside an equation; return what that adds to the walk's work, without adding it."""
    with note_apart(walk) as work:
        outputs = walk.enter(jaxpr, inputs, context)
    return Body(work, outputs)


def walk_cond(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the branch that is taken, if the given inputs tell; else over every branch, and count the dearest."""
    branches, index = parameters(equation)["branches"], walk.compute_elements(inputs[0])
    walk.hold(inputs)
    if index is not None:
        chosen = min(max(int(index), 0), len(branches) - 1)
        return walk.enter(branches[chosen], inputs[1:], context)
    bodies = [walk_body(walk, branch, inputs[1:], context) for branch in branches]
    dearest = max(bodies, key=lambda body: body.work.price)
    walk.work.add(count_one(dearest, bodies, _DEAREST.format(len(branches))))
    return [value.forget() for value in dearest.outputs]


def count_one(counted: Body[Work, Value], bodies: Sequence[Body[Work, Value]], reason: str) -> Work:
    """Return the work of an equation that runs one of several bodies: that of one of them, and how the others differ.

    Args:
        counted: The body that is counted.
        bodies: All bodies, the counted one among them.
        reason: Why it is not known which one runs, and which one is counted.
    """
    index = next(index for index, body in enumerate(bodies) if body is counted)
    choice = PendingChoice([body.work for body in bodies], index, reason)
    fork = make_fork(counted, [body for body in bodies if body is not counted], reason, _hand_on)
    return Work([fork], [choice], counted.work.missed)


def _hand_on(value: Value, result: Value) -> Executed:
    return Executed("cond", (), (value,), (result,), sources={result.number: value.number})
