"""How often a ``Loop`` runs whose condition is counted out of constants, as converters write ``while i < n``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, NodeProto, helper

from .folding import is_repeatable, make_evaluator
from .values import Array, Value

__all__ = ["count_turns"]

#: The most turns that are gone through; each computes the condition alone.
_MOST = 1000


class _Body(NamedTuple):
    """The names of the inputs and the outputs of the body of a loop.

    Attributes:
        number: The number of the turn.
        goes_in: The condition among the inputs.
        comes_out: The condition among the outputs.
        returned: The output for each carried value, by the name of the input for this value.
    """

    number: str
    goes_in: str
    comes_out: str
    returned: Mapping[str, str]

    @classmethod
    def read(cls, graph: GraphProto) -> _Body:
        """Return the names of a body."""
        number, goes_in, *carried = (formal.name for formal in graph.input)
        comes_out, *results = (result.name for result in graph.output)
        return cls(number, goes_in, comes_out, dict(zip(carried, results, strict=False)))


class _Needed(NamedTuple):
    """The sources of the condition of a loop, in all turns.

    Attributes:
        nodes: The nodes of the body that compute the condition.
        carried: The carried values that these nodes read, by the names of the body's inputs.
        outer: The names of the values from around the loop.
    """

    nodes: list[NodeProto]
    carried: list[str]
    outer: list[str]


def count_turns(
    graph: GraphProto,
    limit: int | None,
    begins: Sequence[Value | None],
    values: Mapping[str, Value],
    opsets: Mapping[str, int],
) -> int | None:
    """Return how often the body of a loop runs, if constants alone decide it; None otherwise, and for many turns.

    Args:
        graph: The body: the number of the turn, the condition and the carried values to the condition and the values.
        limit: How often it runs at most, if that is known.
        begins: The values that the first turn gets.
        values: The values around the loop, and the constants of the body.
        opsets: The version of each operator set.
    """
    body = _Body.read(graph)
    needed = _find_needed(graph, body)
    if needed is None:
        return None
    first_turn = {**values, **dict(zip(body.returned, begins, strict=True))}
    feeds: dict[str, Array] = {}
    for name in (*needed.outer, *needed.carried):
        value = first_turn.get(name)
        if value is None or value.array is None:
            return None
        feeds[name] = value.array
    try:
        return _run_turns(body, needed, feeds, limit, opsets)
    except MemoryError:
        raise
    except Exception:  # an operator or a dtype that the reference lacks: then the number is not known
        return None


def _find_needed(graph: GraphProto, body: _Body) -> _Needed | None:
    """Return the sources of the condition of a loop, in all turns.

    None if one of its operators holds graphs, is not the standard's, or differs from run to run.
    """
    makers = {output: node for node in graph.node for output in node.output if output}
    waiting, seen = [body.comes_out], dict[str, None]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen[name] = None
        if name in makers:
            if not is_repeatable(makers[name]):
                return None
            waiting += filter(None, makers[name].input)
        elif name in body.returned:  # the turn before has made it
            waiting.append(body.returned[name])
    nodes = [node for node in graph.node if not seen.keys().isdisjoint(node.output)]
    read = [name for name in seen if name not in makers and name not in (body.number, body.goes_in)]
    carried = [name for name in read if name in body.returned]
    return _Needed(nodes, carried, [name for name in read if name not in body.returned])


def _run_turns(
    body: _Body, needed: _Needed, feeds: dict[str, Array], limit: int | None, opsets: Mapping[str, int]
) -> int | None:
    """Return after which turn the condition is false; None if that takes too many turns.

    ``feeds`` are the values that the first turn reads.
    """
    returned = [body.comes_out, *(body.returned[name] for name in needed.carried)]
    results = [f"{name}.after{index}" for index, name in enumerate(returned)]
    # A body may return an input as it is; in a model, the output of a graph needs another name.
    renamed = [helper.make_node("Identity", [name], [result]) for name, result in zip(returned, results, strict=True)]
    inputs = sorted({body.number, body.goes_in, *feeds})
    turn = make_evaluator([*needed.nodes, *renamed], inputs, results, opsets.get("", 1))
    most = _MOST if limit is None else min(_MOST, limit)
    for number in range(most):
        counted = {body.number: np.asarray(number, np.int64), body.goes_in: np.asarray(True)}
        condition, *after = turn.run(None, {**feeds, **counted})
        feeds.update(zip(needed.carried, map(np.asarray, after), strict=True))
        if not np.all(condition):
            return number + 1
    return most if most == limit else None
