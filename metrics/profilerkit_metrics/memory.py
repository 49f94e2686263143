"""The most memory a forward pass needs at once."""

from __future__ import annotations

from typing import Any

from profilerkit import Comparative, Failure, Metric, Noted, Partial, Scale
from profilerkit.trace import ModelTrace

__all__ = ["MemoryFootprint", "memory_footprint"]


class MemoryFootprint(Metric):
    """Peak bytes alive at once in one forward pass without gradients: weights, inputs and activations."""

    NAME = "memory_footprint"
    UNIT = "B"
    SCALE = Scale.IEC
    COMPARATIVE = Comparative.RECIPROCAL


def memory_footprint(trace: ModelTrace, include_weights: bool) -> Any:
    """Return the peak in bytes, or the failure that kept the model from running.

    It is a lower bound where the model makes tensors of unknown size.
    """
    if trace.failure is not None:
        return Failure(trace.failure)
    peak = trace.memory.peak_bytes(include_weights)
    value = Partial(peak, trace.memory.missing) if trace.memory.unsized else peak
    return Noted(value, trace.memory.note) if trace.memory.note else value
