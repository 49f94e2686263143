"""Which operators of a graph run, in the order in which they can: what an output needs, and nothing else."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

__all__ = ["running_operators"]


def running_operators(graph: Any) -> Iterator[Any]:
    """Yield the operators that an output or a side effect of a function graph needs.

    In the order of their making where that is possible: the inputs of a loop may be made after it, for its gradient.
    """
    operators = graph.get_operations()
    position = {operator.name: index for index, operator in enumerate(operators)}
    needed = _needed(graph, position)
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


def _needed(graph: Any, position: dict[str, int]) -> dict[int, set[int]]:
    """Return the operators that are reached back from the outputs, each with those it needs itself."""
    needed: dict[int, set[int]] = {}
    reached = [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    while reached:
        operator = reached.pop()
        index = position[operator.name]
        if index in needed:
            continue
        before = [tensor.op for tensor in operator.inputs] + list(operator.control_inputs)
        needed[index] = {position[earlier.name] for earlier in before}
        reached += before
    return needed
