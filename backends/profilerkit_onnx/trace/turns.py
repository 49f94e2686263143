"""How often a ``Loop`` runs whose condition is counted out of constants, as converters write ``while i < n``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper

from .folding import is_repeatable, make_evaluator
from .values import Array, Value

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

__all__ = ["count_turns"]

#: The most turns that are gone through; each computes the condition alone.
_MOST = 1000


class _Names(NamedTuple):
    """The names of what the body of a loop gets and returns.

    Attributes:
        number: The number of the turn.
        goes_in: The condition, as the body gets it.
        comes_out: The condition, as the body returns it.
        carried_in: What it gets of the values that are carried from turn to turn.
        carried_out: What it returns of these, and then of the values that are stacked.
    """

    number: str
    goes_in: str
    comes_out: str
    carried_in: Sequence[str]
    carried_out: Sequence[str]

    @classmethod
    def read(cls, graph: GraphProto) -> _Names:
        """Return the names of a body."""
        number, goes_in, *carried_in = (formal.name for formal in graph.input)
        comes_out, *carried_out = (result.name for result in graph.output)
        return cls(number, goes_in, comes_out, carried_in, carried_out)


class _Needed(NamedTuple):
    """What the condition of a loop depends on.

    Attributes:
        nodes: The nodes of the body that make it.
        carried: Which of the carried values these read, by their indices.
        outer: The names of the values from around the loop.
    """

    nodes: list[NodeProto]
    carried: list[int]
    outer: set[str]


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
    names = _Names.read(graph)
    needed = _find_needed(graph, names)
    if needed is None:
        return None
    first_turn = {names.carried_in[index]: begins[index] for index in needed.carried}
    arrays = _read_arrays({**{name: values.get(name) for name in needed.outer}, **first_turn})
    if arrays is None:
        return None
    returned = [names.comes_out, *(names.carried_out[index] for index in needed.carried)]
    turn = make_evaluator(_make_model(needed.nodes, {names.number, names.goes_in, *arrays}, returned, opsets))
    try:
        return _run_turns(turn, arrays, names, needed, limit)
    except MemoryError:
        raise
    except Exception:  # an operator or a dtype that the reference lacks: then the number is not known
        return None


def _read_arrays(values: Mapping[str, Value | None]) -> dict[str, Array] | None:
    """Return the elements of values by their names; None if the elements of any value are not known."""
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        if value is None or value.array is None:
            return None
        arrays[name] = value.array
    return arrays


def _run_turns(
    turn: ReferenceEvaluator, feeds: dict[str, Array], names: _Names, needed: _Needed, limit: int | None
) -> int | None:
    """Return after which turn the condition is false; None where that takes too many turns."""
    most = _MOST if limit is None else min(_MOST, limit)
    for number in range(most):
        counted = {names.number: np.asarray(number, np.int64), names.goes_in: np.asarray(True)}
        condition, *after = turn.run(None, {**feeds, **counted})
        for index, array in zip(needed.carried, after, strict=True):
            feeds[names.carried_in[index]] = np.asarray(array)
        if not np.all(condition):
            return number + 1
    return most if most == limit else None


def _find_needed(graph: GraphProto, names: _Names) -> _Needed | None:
    """Return what the condition of a loop depends on, in all turns.

    None for a condition that operators decide which hold graphs, are not the standard's, or differ from run to run.
    """
    makers = {output: node for node in graph.node for output in node.output if output}
    waiting, seen = [names.comes_out], set[str]()
    carried, outer = set[int](), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in makers:
            if not is_repeatable(makers[name]):
                return None
            waiting += [item for item in makers[name].input if item]
        elif name in names.carried_in:  # the turn before has made it
            index = names.carried_in.index(name)
            carried.add(index)
            waiting.append(names.carried_out[index])
        elif name not in (names.number, names.goes_in):
            outer.add(name)
    nodes = [node for node in graph.node if any(output in seen for output in node.output)]
    return _Needed(nodes, sorted(carried), outer)


def _make_model(
    nodes: Sequence[NodeProto], inputs: set[str], outputs: Sequence[str], opsets: Mapping[str, int]
) -> ModelProto:
    """Return a model of these nodes alone, which computes one turn."""
    results = [f"{name}.after{index}" for index, name in enumerate(outputs)]
    # A body may return what it gets; in a model, a result has a name of its own.
    identities = [helper.make_node("Identity", [name], [result]) for name, result in zip(outputs, results, strict=True)]
    graph = helper.make_graph(
        [*nodes, *identities],
        "condition",
        [helper.make_empty_tensor_value_info(name) for name in sorted(inputs)],
        [helper.make_empty_tensor_value_info(result) for result in results],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opsets.get("", 1))])
