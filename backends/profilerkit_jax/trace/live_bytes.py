"""Bytes alive along the equations: which values share a buffer, and which are the caller's."""

from __future__ import annotations

from collections.abc import Sequence

from profilerkit.backend_kit.live_bytes import Step, live_bytes

from .values import Value
from .work import Executed

__all__ = ["bytes_along"]


def bytes_along(
    executed: Sequence[Executed], inputs: Sequence[Value], outputs: Sequence[Value], spans: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """Return the bytes alive after each equation: inputs and activations. Weights are counted elsewhere."""
    input_sizes = {value.number: value.bytes for value in inputs}
    tracked, steps = set(input_sizes), []
    for op in executed:
        reads = tuple(value.number for value in op.inputs if value.number in tracked)
        made = [value for value in op.outputs if value.number not in tracked and not value.constant]
        aliases = {value.number: op.sources[value.number] for value in made if op.sources.get(value.number) in tracked}
        steps.append(Step(reads, tuple((value.number, value.bytes) for value in made), aliases))
        tracked.update(value.number for value in made)
    return live_bytes(steps, input_sizes, [value.number for value in outputs if value.number in tracked], spans)
