"""The bytes alive while a graph of operators runs, by what its operators read, make and share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from .graph_work import Executed, GraphValue
from .live_bytes import Step, live_bytes
from .running_order import RunningOrder

__all__ = ["count_unsized", "find_viewed", "measure_live_bytes"]


def measure_live_bytes(
    work: RunningOrder[Any, Any],
    inputs: Sequence[GraphValue],
    outputs: Sequence[GraphValue],
    find_sources: Callable[[Any], Mapping[int, int]],
) -> tuple[int, ...]:
    """Return the bytes alive after each counted operator: inputs and activations. Constants are weights.

    Args:
        work: The operators that run, with the values that they read and make.
        inputs: The values that the call gives.
        outputs: The values that the model returns.
        find_sources: Returns the values whose buffers the outputs of an operator share, by the outputs' numbers.
    """
    input_sizes = {value.number: value.bytes for value in inputs}
    activations = set(input_sizes)  # the numbers of the values whose bytes count
    steps = []
    for op in work.steps:
        reads = [value.number for value in op.inputs if value.number in activations]
        sources = find_sources(op)
        made: dict[int, int] = {}
        shared: dict[int, int] = {}
        for value in op.outputs:
            number, source = value.number, sources.get(value.number)
            if value.constant or number in activations:
                continue
            made[number] = value.bytes
            if source in activations:
                shared[number] = source
        steps.append(Step(tuple(reads), tuple(made.items()), shared))
        activations.update(made)
    kept = [value.number for value in outputs if value.number in activations]
    return work.select_counted(live_bytes(steps, input_sizes, kept, work.loops))


def find_viewed(op: Executed, views: Container[str]) -> dict[int, int]:
    """Return the value whose buffer an operator's output shares, by the output's number; nothing if it has its own.

    An operator whose output has another size makes a copy. Dropout in training, or another that computes, is no view.
    """
    if not op.inputs or not op.outputs:
        return {}
    source, output = op.inputs[0], op.outputs[0]
    is_view = op.operator in views and not op.flops and source.bytes == output.bytes
    return {output.number: source.number} if is_view else {}


def count_unsized(operators: Iterable[Executed], inputs: Iterable[GraphValue]) -> Counter[str]:
    """Return the operators that make values of unknown size, with their calls."""
    unsized = Counter[str]()
    for value in inputs:
        if value.shape is None:
            unsized["an input"] += 1
    for op in operators:
        if any(value.shape is None for value in op.outputs):
            unsized[op.operator] += max(op.times, 1)
    return unsized
