"""Branches: of which the given inputs do not tell the one that runs, the dearest is counted.

The walk goes over each branch apart. What the others do instead is kept with the work of the one that is counted: the
two ends of every count, and of the bytes alive, follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from profilerkit.backend_kit.branch_memory import Fork, Side
from profilerkit.backend_kit.graph_work import note_apart

from ..compat import parameters
from .frames import Context
from .values import Value
from .walk import Walk
from .work import Executed, PendingChoice, Work

__all__ = ["Body", "count_one", "walk_body", "walk_cond"]

_DEAREST = "which of {} branches of a cond runs is known only while it runs; the dearest is counted"


class Body(NamedTuple):
    """What a branch or the body of a loop runs, and the values that it returns."""

    work: Work
    outputs: Sequence[Value]


def walk_body(walk: Walk, jaxpr: Any, inputs: Sequence[Value], context: Context) -> Body:
    """Go over a jaxpr inside an equation; return what that adds to the walk's work, without adding it."""
    with note_apart(walk) as work:
        outputs = walk.enter(jaxpr, inputs, context)
    return Body(work, outputs)


def walk_cond(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the branch that is taken, if the given inputs tell; else over every branch, and count the dearest."""
    branches, index = parameters(equation)["branches"], walk.compute_elements(inputs[0])
    if index is not None:
        chosen = min(max(int(index), 0), len(branches) - 1)
        return walk.enter(branches[chosen], inputs[1:], context)
    bodies = [walk_body(walk, branch, inputs[1:], context) for branch in branches]
    dearest = max(bodies, key=lambda body: body.work.price)
    walk.work.add(count_one(dearest, bodies, _DEAREST.format(len(branches))))
    return [value.forget() for value in dearest.outputs]


def count_one(counted: Body, bodies: Sequence[Body], reason: str) -> Work:
    """Return the work of an equation that runs one of several bodies: that of one of them, and how the others differ.

    Args:
        counted: The body that is counted.
        bodies: All bodies, the counted one among them.
        reason: Why it is not known which one runs, and which one is counted.
    """
    index = next(index for index, body in enumerate(bodies) if body is counted)
    others = [_replace_in_memory(counted, body) for body in bodies if body is not counted]
    sides = [side for side in others if side is not None]
    return replace(
        counted.work,
        choices=[PendingChoice([body.work for body in bodies], index, reason)],
        forks=[Fork(0, counted.work.as_side(), sides, reason)],
        knows_peaks=len(sides) == len(others) and all(body.work.knows_peaks for body in bodies),
    )


def _replace_in_memory(counted: Body, body: Body) -> Side | None:
    """Return a body as the side of a fork that returns its values as those of the counted one.

    None where that one returns, in the place of another, a value that it is given: the value is alive besides, so that
    nothing is known of the peak behind it.
    """
    made = {value.number for op in counted.work.executed for value in op.outputs}
    handing_on = []
    for value, result in zip(body.outputs, counted.outputs, strict=True):
        if result.number in made:
            made.discard(result.number)
            chain, sources = counted.work.executed[0].chain, {result.number: value.number}
            handing_on.append(Executed("cond", chain, (value,), (result,), sources=sources))
        elif result.number != value.number:
            return None
    return body.work.as_side(*handing_on)
