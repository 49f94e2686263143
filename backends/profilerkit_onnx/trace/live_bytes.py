"""Bytes alive along the order of the graph: which values share a buffer, and which are the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profilerkit.backend_kit.live_bytes import Step, live_bytes

from .values import Executed, Value

__all__ = ["bytes_along"]

#: Operators whose output is their first input in another shape: it shares its buffer.
_VIEWS = {"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}


def bytes_along(
    executed: Sequence[Executed],
    inputs: Mapping[str, Value],
    outputs: Sequence[Value],
    spans: Sequence[tuple[int, int]] = (),
) -> tuple[int, ...]:
    """Return the bytes alive after each operator: inputs and activations; constants are weights, counted elsewhere."""
    input_sizes = {value.number: value.bytes for value in inputs.values()}
    tracked = set(input_sizes)
    steps = []
    for op in executed:
        reads = tuple(value.number for value in op.inputs if value.number in tracked)
        made = [value for value in op.outputs if not value.constant and value.number not in tracked]
        aliases = {}
        if op.operator in _VIEWS and reads and made:
            source = op.inputs[0].number
            if source in tracked and op.inputs[0].bytes == made[0].bytes:
                aliases = {made[0].number: source}
        steps.append(Step(reads, tuple((value.number, value.bytes) for value in made), aliases))
        tracked.update(value.number for value in made)
    kept = [value.number for value in outputs if value.number in tracked]
    return live_bytes(steps, input_sizes, kept, spans)
