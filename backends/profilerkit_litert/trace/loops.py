"""Loops: followed turn by turn to count their turns, then gone over once for all turns together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from profilerkit.backend_kit.graph_work import Executed

from .values import Value
from .walk import Visit, Walk

__all__ = ["walk_loop"]

#: The most operators that a walk visits to count the turns of a loop; each turn counts as one operator more.
_MOST_IN_TURNS = 20_000


class _Turns(NamedTuple):
    """The known facts about a loop that was followed turn by turn.

    Attributes:
        number: How often its body runs; None if that is not known, or takes too long to find out.
        common: The carried values, with the facts that hold in every turn.
        last: The carried values after the last turn that was followed.
    """

    number: int | None
    common: Sequence[Value]
    last: Sequence[Value]


def walk_loop(walk: Walk, visit: Visit) -> list[Value]:
    """Count the turns of a loop, walk its condition and its body once for all turns, and return its outputs.

    If the number of turns is not known, one turn is counted, and the loop is named as missing.
    """
    walk.hold(visit)
    turns = _follow_turns(walk, visit)
    if turns.number == 0:
        condition, _ = visit.operator.graphs
        walk.work.add(walk.walk_body(visit, condition, visit.operands).work)
        return visit.operands
    results = _count_turns(walk, visit, turns)
    if turns.number is None:
        return results
    return [replace(value, sizes=last.sizes) for value, last in zip(results, turns.last, strict=True)]


def _follow_turns(walk: Walk, visit: Visit) -> _Turns:
    """Go over a loop turn by turn while its condition is known; the work of these turns is not kept."""
    condition, body = visit.operator.graphs
    last: Sequence[Value] = visit.operands
    common = [replace(value, constant=False, array=None) for value in last]
    number, limit = 0, walk.seen + _MOST_IN_TURNS
    while walk.seen + number < limit:  # every body that is walked raises `seen` by its operators
        [goes_on] = walk.walk_body(visit, condition, last).outputs
        if goes_on.array is None:
            break
        walk.note_followed(goes_on)
        if not goes_on.array.all():
            return _Turns(number, common, last)
        last = walk.walk_body(visit, body, last).outputs
        common = [value.merge(after) for value, after in zip(common, last, strict=True)]
        number += 1
    return _Turns(None, common, last)


def _count_turns(walk: Walk, visit: Visit, turns: _Turns) -> list[Value]:
    """Add the work of all turns, and return the values with the facts that are true after any turn.

    The condition runs once more than the body. The loop itself makes nothing: it reads the results of the last turn.
    """
    condition, body = visit.operator.graphs
    number = 1 if turns.number is None else turns.number
    work = walk.walk_body(visit, condition, turns.common, number + 1).work
    any_turn = walk.walk_body(visit, body, turns.common, number)
    work.add(any_turn.work)
    name = visit.operator.name
    missing = f"{name} of an unknown number of turns" if turns.number is None else ""
    work.append(Executed(name, walk.node, any_turn.outputs, (), visit.times, missing=missing))
    walk.work.add_loop(work)
    return list(any_turn.outputs)
