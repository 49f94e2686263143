"""Operators that hold graphs: calls, branches, loops, and operators that join elements by a graph of their own.

A loop is followed turn by turn to count its turns, then gone over once for all turns together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from profilerkit.backend_kit.graph_work import Executed, count_first
from profilerkit.costs import Cost

from .values import Value
from .walk import Handler, Visit, Walk

__all__ = ["HANDLERS"]

#: The most operators that a walk visits to count the turns of a loop; each turn counts as one operator more.
_MOST_IN_TURNS = 20_000


def _walk_call(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the graph that a call names."""
    [called] = visit.operator.graphs
    body = walk.walk_body(visit, called, visit.operands)
    walk.work.add(body.work)
    return list(body.outputs)


def _walk_call_once(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the graph that runs once, before the first pass: its work counts as nothing."""
    [called] = visit.operator.graphs
    walk.notes["CALL_ONCE prepares variables and tables before the first pass: it counts as nothing"] = None
    return list(walk.walk_body(visit, called, visit.operands).outputs)


def _walk_branches(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the branch that a known condition takes; count the dearer branch if the condition is not known."""
    condition, *inputs = visit.operands
    walk.hold(visit)
    if condition.array is None:
        return _walk_both_branches(walk, visit, inputs)
    walk.note_followed(condition)
    then, otherwise = visit.operator.graphs
    taken = walk.walk_body(visit, then if condition.array.all() else otherwise, inputs)
    walk.work.add(taken.work)
    return list(taken.outputs)


def _walk_both_branches(walk: Walk, visit: Visit, inputs: list[Value]) -> list[Value]:
    """Count the dearer branch, and return the results with the facts that are true of both branches."""
    bodies = [walk.walk_body(visit, branch, inputs) for branch in visit.operator.graphs]
    dearer, cheaper = sorted(bodies, key=lambda body: body.work.price, reverse=True)
    results = [value.merge(other) for value, other in zip(dearer.outputs, cheaper.outputs, strict=True)]
    path = walk.paths[walk.node]
    reason = f"the condition of an IF in {path or 'the model'!r} depends on values: the dearer branch is counted"
    walk.work.add(count_first(dearer.work, cheaper.work, path, reason))
    return results


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


def _walk_loop(walk: Walk, visit: Visit) -> list[Value]:
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
    return [replace(value, dims=last.dims) for value, last in zip(results, turns.last, strict=True)]


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


def _walk_scatter(walk: Walk, visit: Visit) -> list[Value]:
    """Count the graph that joins two elements once for each element of the updates."""
    outputs = walk.make_outputs(visit)
    shape = visit.operands[2].shape  # the array, the indices and the updates
    _count_joining(walk, visit, outputs, None if shape is None else shape.numel)
    return outputs


def _walk_reduce_window(walk: Walk, visit: Visit) -> list[Value]:
    """Count the graph that joins two elements once for each element of each window; each makes an output element."""
    outputs = walk.make_outputs(visit)
    shape, window = outputs[0].shape, visit.operator.option("windowDimensions", ())
    _count_joining(walk, visit, outputs, None if shape is None else shape.numel * math.prod(map(int, window)))
    return outputs


def _count_joining(walk: Walk, visit: Visit, outputs: list[Value], pairs: int | None) -> None:
    """Note an operator, and before it the graph that joins so many pairs of elements for it.

    If their number is not known (None), no pair is counted, and the operator is named as missing.
    """
    [joining], name = visit.operator.graphs, visit.operator.name
    graph = walk.find_graph(joining)
    pair = [walk.make_value(graph.tensors[index], ()) for index in graph.inputs]
    walk.work.add_loop(walk.walk_body(visit, joining, pair, pairs or 0).work)
    walk.note(visit, outputs, Cost(0, 0), f"{name} of unknown shape" if pairs is None else "")


#: The function that goes over each operator that holds graphs.
HANDLERS: Mapping[str, Handler] = {
    "CALL": _walk_call,
    "CALL_ONCE": _walk_call_once,
    "IF": _walk_branches,
    "STABLEHLO_COMPOSITE": _walk_call,
    "STABLEHLO_REDUCE_WINDOW": _walk_reduce_window,
    "STABLEHLO_SCATTER": _walk_scatter,
    "STABLEHLO_WHILE": _walk_loop,
    "WHILE": _walk_loop,
}
