"""Which operators of a graph run, in an order in which they can: those that an output needs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

__all__ = ["find_needed_variables", "list_running_operators"]


def list_running_operators(graph: Any, outputs: Sequence[Any] | None = None) -> Iterator[Any]:
    """Yield the operators that these outputs of a function graph (all, if none are given) or a side effect need.

    In the order of their making where that is possible: the inputs of a loop may be made after it, for its gradient.
    """
    operators = graph.get_operations()
    position = {operator.name: index for index, operator in enumerate(operators)}
    needed = _find_needed(graph, graph.outputs if outputs is None else outputs, position)
    waiting: dict[int, int] = {}
    followers: dict[int, list[int]] = {}
    ready: list[int] = []
    for index, before in needed.items():
        waiting[index] = len(before)
        for earlier in before:
            followers.setdefault(earlier, []).append(index)
        if not before:
            ready.append(index)
    heapq.heapify(ready)
    while ready:
        index = heapq.heappop(ready)
        yield operators[index]
        for later in followers.get(index, ()):
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, later)


def find_needed_variables(condition: Any, body: Any, used: Iterable[int]) -> set[int]:
    """Return the indices of the variables of a loop that are needed, where those of ``used`` are used after it.

    Also needed are the variables that the condition reads, and those that the next values of needed ones are made of.
    The gradient of a loop computes gradients of all that the loop takes, also of weights that are not trained.
    """
    needed = set(used) | _find_reached_inputs(condition, condition.outputs)
    while True:
        further = _find_reached_inputs(body, [body.outputs[index] for index in sorted(needed)]) - needed
        if not further:
            return needed
        needed |= further


def _find_reached_inputs(graph: Any, outputs: Sequence[Any]) -> set[int]:
    operators = graph.get_operations()
    position = {operator.name: index for index, operator in enumerate(operators)}
    needed = _find_needed(graph, outputs, position)
    return {number for number, tensor in enumerate(graph.inputs) if position[tensor.op.name] in needed}


def _find_needed(graph: Any, outputs: Sequence[Any], position: dict[str, int]) -> dict[int, set[int]]:
    """Return the operators that are reached back from the outputs, each with those it needs itself."""
    needed: dict[int, set[int]] = {}
    passed_on: set[str] = set()
    reached: list[tuple[Any, Any]] = [(tensor.op, tensor) for tensor in outputs]
    reached += [(operator, None) for operator in graph.control_outputs]
    while reached:
        operator, tensor = reached.pop()
        index = position[operator.name]
        if operator.type == "IdentityN" and tensor is not None and tensor.name not in passed_on:
            passed_on.add(tensor.name)  # of what passes through it, as a custom gradient's results do, this one alone
            before = [operator.inputs[tensor.value_index]]
        elif index not in needed:
            before = [] if operator.type == "IdentityN" else list(operator.inputs)
        else:
            continue
        needed.setdefault(index, set())
        controls = list(operator.control_inputs)
        reached += [(earlier.op, earlier) for earlier in before] + [(earlier, None) for earlier in controls]
        needed[index].update(position[name.op.name] for name in before if not _closes_a_loop(operator, name.op))
        needed[index].update(position[earlier.name] for earlier in controls)
    return needed


def _closes_a_loop(operator: Any, earlier: Any) -> bool:
    """Return whether one operator takes the value that another made in the run before: a loop of TensorFlow 1."""
    return operator.type in ("Merge", "RefMerge") and earlier.type in ("NextIteration", "RefNextIteration")
