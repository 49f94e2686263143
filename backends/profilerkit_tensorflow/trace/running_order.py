"""The operators of a graph that run, because an output or a side effect needs them, in a possible order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .graph_access import body_named, read_attribute
from .ownership import CALLS

__all__ = ["find_needed_variables", "list_read_inputs", "list_running_operators"]


def list_running_operators(graph: Any, outputs: Sequence[Any] | None = None) -> Iterator[Any]:
    """Yield the operators that these outputs of a function graph (all, if none are given) or a side effect need.

    In the order of their making if that is possible: the inputs of a loop may be made after it, for its gradient.
    """
    operators = graph.get_operations()
    position = {operator.name: index for index, operator in enumerate(operators)}
    sources = _find_sources(graph, graph.outputs if outputs is None else outputs, position)
    return (operators[index] for index in _sort_by_sources(sources))


def _sort_by_sources(sources: dict[int, set[int]]) -> Iterator[int]:
    """Yield the operators so that each comes after its sources; if several can come next, in the order of creation."""
    missing = {index: len(before) for index, before in sources.items()}
    followers: dict[int, list[int]] = {}
    for index, before in sources.items():
        for source in before:
            followers.setdefault(source, []).append(index)
    ready = [index for index, count in missing.items() if not count]
    heapq.heapify(ready)
    while ready:
        index = heapq.heappop(ready)
        yield index
        for follower in followers.get(index, ()):
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, follower)


def find_needed_variables(condition: Any, body: Any, used: Iterable[int]) -> set[int]:
    """Return the indices of the variables of a loop that are needed, if the indices ``used`` are used after it.

    Also needed are the variables that the condition reads, and the variables from which next values of needed ones are
    made. The gradient of a loop computes gradients of all inputs of the loop, also of weights that are not trained.
    """
    needed = set(used) | _find_reached_inputs(condition, condition.outputs)
    while True:
        further = _find_reached_inputs(body, [body.outputs[index] for index in sorted(needed)]) - needed
        if not further:
            return needed
        needed |= further


def _find_reached_inputs(graph: Any, outputs: Sequence[Any]) -> set[int]:
    """Return the indices of the inputs of a function graph that these outputs, or a side effect, need."""
    position = {operator.name: index for index, operator in enumerate(graph.get_operations())}
    sources = _find_sources(graph, outputs, position)
    return {number for number, tensor in enumerate(graph.inputs) if position[tensor.op.name] in sources}


def list_read_inputs(graph: Any, operator: Any) -> list[Any]:
    """Return the inputs that an operator of a graph reads: a function that it calls may leave some of them out.

    TensorFlow puts the operators of such a function in place of the call. A function that XLA compiles is one kernel,
    which takes all of its inputs.
    """
    inputs = list(operator.inputs)
    if operator.type not in CALLS or read_attribute(operator, "_XlaMustCompile"):
        return inputs
    body = body_named(graph, operator.get_attr("f").name)
    read = _find_reached_inputs(body, body.outputs)
    return [tensor for index, tensor in enumerate(inputs) if index in read]


def _find_sources(graph: Any, outputs: Sequence[Any], position: dict[str, int]) -> dict[int, set[int]]:
    """Return the operators that are reached back from outputs and side effects, each with its direct predecessors.

    Operators are numbers: their positions in the graph.
    """
    sources: dict[int, set[int]] = {}
    visited: set[str] = set()
    # Operators with their needed output; None if they run for a side effect.
    pending: list[tuple[Any, Any]] = [(tensor.op, tensor) for tensor in outputs]
    pending += [(operator, None) for operator in graph.control_outputs]
    while pending:
        operator, output = pending.pop()
        visit, inputs, controls = operator.name, list_read_inputs(graph, operator), list(operator.control_inputs)
        if operator.type == "IdentityN":
            # Each output is one of the inputs, as with the results of a custom gradient: it is visited once for each.
            visit = operator.name if output is None else output.name
            inputs = [] if output is None else [operator.inputs[output.value_index]]
        if visit in visited:
            continue
        visited.add(visit)
        pending += [(tensor.op, tensor) for tensor in inputs] + [(control, None) for control in controls]
        before = [tensor.op for tensor in inputs]
        if operator.type in ("Merge", "RefMerge"):  # a loop of TensorFlow 1 takes a value from the run before
            before = [source for source in before if source.type not in ("NextIteration", "RefNextIteration")]
        sources.setdefault(position[operator.name], set()).update(position[source.name] for source in before + controls)
    return sources
