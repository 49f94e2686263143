"""Branches: the dearest is counted, if the given inputs do not decide.

The walk goes over each branch apart. The work of the other branches is kept with the counted branch: it gives the two
ends of every count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.backend_kit import graph_branches

from ..compat import list_scopes, parameters
from .frames import Context
from .values import PendingChoice, Value, Work
from .walk import Walk

__all__ = ["count_one", "walk_cond"]

_DEAREST = "which of {} branches of a cond runs is known only while it runs; the dearest is counted"


def walk_cond(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the taken branch, if the given inputs decide it; otherwise over all branches, and count the dearest."""
    branches, index = parameters(equation)["branches"], walk.compute_elements(inputs[0])
    walk.hold(inputs)
    if index is not None:
        chosen = min(max(int(index), 0), len(branches) - 1)
        for branch in (*branches[:chosen], *branches[chosen + 1 :]):
            walk.frames.left_out.update(list_scopes(branch))
        return walk.enter(branches[chosen], inputs[1:], context)
    bodies = [walk.walk_apart(branch, inputs[1:], context) for branch in branches]
    dearest = max(bodies, key=lambda body: body.work.price)
    others = [body.work for body in bodies if body is not dearest]
    walk.work.add(count_one(dearest.work, others, _DEAREST.format(len(branches))))
    return [value.forget() for value in dearest.outputs]


def count_one(counted: Work, others: Sequence[Work], reason: str) -> Work:
    """Return the work of one of several bodies, and how the others differ, like `graph_branches.count_one`."""
    return graph_branches.count_one(counted, others, [PendingChoice([counted, *others], reason)], reason)
