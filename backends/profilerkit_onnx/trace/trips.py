"""How often a ``Loop`` runs whose condition is counted out of constants, as converters write ``while i < n``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper
from onnx.reference import ReferenceEvaluator

from .folding import is_repeatable
from .values import Array, Value

__all__ = ["count_trips"]

#: The most turns that are gone through; each computes the condition alone.
_MOST = 1000


def count_trips(
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
    formals = [formal.name for formal in graph.input]
    results = [result.name for result in graph.output]
    needed = _find_needed(graph, formals, results)
    if needed is None:
        return None
    nodes, carried, outer = needed
    captured = {name: values[name].array for name in outer if name in values}
    first = {formals[2 + index]: value.array for index in carried if (value := begins[index]) is not None}
    arrays = {**captured, **first}
    if len(captured) < len(outer) or len(first) < len(carried) or any(array is None for array in arrays.values()):
        return None
    made = [results[0], *(results[1 + index] for index in carried)]
    turn = ReferenceEvaluator(_make_model(nodes, {*formals[:2], *arrays}, made, opsets))
    feeds = {name: array for name, array in arrays.items() if array is not None}
    try:
        return _run_turns(turn, feeds, formals, carried, limit)
    except MemoryError:
        raise
    except Exception:  # an operator or a dtype that the reference lacks: then the number is not known
        return None


def _run_turns(
    turn: ReferenceEvaluator, feeds: dict[str, Array], formals: Sequence[str], carried: Sequence[int], limit: int | None
) -> int | None:
    """Return after which turn the condition is false; None where that takes too many turns."""
    for number in range(min(_MOST, _MOST if limit is None else limit)):
        counted = {formals[0]: np.asarray(number, np.int64), formals[1]: np.asarray(True)}
        condition, *after = turn.run(None, {**feeds, **counted})
        feeds |= {formals[2 + index]: np.asarray(array) for index, array in zip(carried, after, strict=True)}
        if not np.all(condition):
            return number + 1
    return limit if limit is not None and limit <= _MOST else None


def _find_needed(
    graph: GraphProto, formals: Sequence[str], results: Sequence[str]
) -> tuple[list[NodeProto], list[int], set[str]] | None:
    """Return the nodes that make the condition, the carried values that these read, and the names from around.

    None for a condition that operators decide which hold graphs, are not the standard's, or differ from run to run.
    """
    makers = {output: node for node in graph.node for output in node.output if output}
    names, carried, outer = [results[0]], set[int](), set[str]()
    seen: set[str] = set()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in makers:
            if not is_repeatable(makers[name]):
                return None
            names += [item for item in makers[name].input if item]
        elif name in formals[2:]:
            index = formals.index(name) - 2
            carried.add(index)
            names.append(results[1 + index])
        elif name not in formals:
            outer.add(name)
    nodes = [node for node in graph.node if any(output in seen for output in node.output)]
    return nodes, sorted(carried), outer


def _make_model(
    nodes: Sequence[NodeProto], inputs: set[str], outputs: Sequence[str], opsets: Mapping[str, int]
) -> ModelProto:
    """Return a model of these nodes alone, which computes one turn."""
    graph = helper.make_graph(
        list(_with_identities(nodes, outputs)),
        "condition",
        [helper.make_empty_tensor_value_info(name) for name in sorted(inputs)],
        [helper.make_empty_tensor_value_info(f"{name}.after{index}") for index, name in enumerate(outputs)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opsets.get("", 1))])


def _with_identities(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> Iterator[NodeProto]:
    """Yield the nodes, and what gives each result a name of its own: a body may return what it gets."""
    yield from nodes
    for index, name in enumerate(outputs):
        yield helper.make_node("Identity", [name], [f"{name}.after{index}"])
