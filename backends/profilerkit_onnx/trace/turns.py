"""``while i < n`` as converters write it: how often the ``Loop`` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, NodeProto, helper

from .folding import is_repeatable, make_evaluator
from .values import Array, Value

__all__ = ["CountedTurns", "count_turns"]

#: The most turns that are gone through; each computes the condition alone.
_MOST = 1000


class CountedTurns(NamedTuple):
    """How often the body of a loop runs, and whether that follows from elements of the inputs that the call gives."""

    number: int
    follows_inputs: bool


class _Condition(NamedTuple):
    """The part of the body of a loop that computes its condition, in all turns.

    Attributes:
        number: The input of the body for the number of the turn.
        before: The input for the condition.
        after: The output for the condition.
        nodes: The nodes that compute it.
        carried: The outputs for the carried values that these nodes read, by the inputs for these values.
        outer: The names of the values from around the loop that they read.
    """

    number: str
    before: str
    after: str
    nodes: Sequence[NodeProto]
    carried: Mapping[str, str]
    outer: Sequence[str]


def count_turns(
    graph: GraphProto,
    limit: int | None,
    begins: Sequence[Value | None],
    values: Mapping[str, Value],
    opsets: Mapping[str, int],
) -> CountedTurns | None:
    """Return how often the body of a loop runs, if known elements decide it; None otherwise, and for many turns.

    Args:
        graph: The body: the number of the turn, the condition and the carried values to the condition and the values.
        limit: How often it runs at most, if that is known.
        begins: The values that the first turn gets.
        values: The values around the loop, and the constants of the body.
        opsets: The version of each operator set.
    """
    condition = _find_condition(graph)
    if condition is None:
        return None
    formals = [formal.name for formal in graph.input][2:]
    first_turn = {**values, **dict(zip(formals, begins, strict=True))}
    feeds: dict[str, Array] = {}
    follows_inputs = False
    for name in (*condition.outer, *condition.carried):
        value = first_turn.get(name)
        if value is None or value.array is None:
            return None
        feeds[name] = value.array
        follows_inputs |= value.from_inputs
    try:
        number = _run_turns(condition, feeds, limit, opsets)
    except MemoryError:
        raise
    except Exception:  # an operator or a dtype that the reference lacks: then the number is not known
        return None
    return None if number is None else CountedTurns(number, follows_inputs)


def _find_condition(graph: GraphProto) -> _Condition | None:
    """Return the part of a body that computes its condition.

    None if one of its operators holds graphs, is not the standard's, or differs from run to run.
    """
    number, before, *formals = (formal.name for formal in graph.input)
    after, *results = (result.name for result in graph.output)
    returned = dict(zip(formals, results, strict=False))
    makers = {output: node for node in graph.node for output in node.output if output}
    waiting, seen = [after], dict[str, None]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen[name] = None
        if name in makers:
            if not is_repeatable(makers[name]):
                return None
            waiting += filter(None, makers[name].input)
        elif name in returned:  # the turn before has made it
            waiting.append(returned[name])
    nodes = [node for node in graph.node if not seen.keys().isdisjoint(node.output)]
    carried = {name: returned[name] for name in seen if name in returned}
    outer = [name for name in seen if name not in (*makers, *returned, number, before)]
    return _Condition(number, before, after, nodes, carried, outer)


def _run_turns(
    condition: _Condition, feeds: dict[str, Array], limit: int | None, opsets: Mapping[str, int]
) -> int | None:
    """Return after which turn the condition is false; None if that takes too many turns.

    ``feeds`` are the values that the first turn reads.
    """
    returned = [condition.after, *condition.carried.values()]
    results = [f"{name}.after{index}" for index, name in enumerate(returned)]
    # A body may return an input as it is; in a model, the output of a graph needs another name.
    renamed = [helper.make_node("Identity", [name], [result]) for name, result in zip(returned, results, strict=True)]
    inputs = sorted({condition.number, condition.before, *feeds})
    turn = make_evaluator([*condition.nodes, *renamed], inputs, results, opsets.get("", 1))
    most = _MOST if limit is None else min(_MOST, limit)
    for number in range(most):
        of_turn = {condition.number: np.asarray(number, np.int64), condition.before: np.asarray(True)}
        goes_on, *after = turn.run(None, {**feeds, **of_turn})
        feeds.update(zip(condition.carried, map(np.asarray, after), strict=True))
        if not np.all(goes_on):
            return number + 1
    return most if most == limit else None
