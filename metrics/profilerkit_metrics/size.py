"""How much room a model takes on disk and in memory before it runs."""

from __future__ import annotations

from typing import Any

from profilerkit import (
    Comparative,
    Failure,
    Metric,
    ModelFailedError,
    Partial,
    ProfilerFunction,
    Scale,
    WithoutValuesError,
)
from profilerkit.trace.records import ModelTrace

from .memory import MemoryFootprint, memory_footprint

__all__ = ["ComputeSize", "ModelSize", "weighed"]


class ModelSize(Metric):
    """Bytes of the distinct parameters and persistent buffers at their own dtypes."""

    NAME = "model_size"
    UNIT = "B"
    SCALE = Scale.IEC
    COMPARATIVE = Comparative.RECIPROCAL


class ComputeSize(ProfilerFunction):
    """Computes what the model needs in memory: its size, and the peak while it runs."""

    KEYS = (ModelSize, MemoryFootprint)

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> dict[str, Any]:
        """Return both in bytes; ``include_weights`` counts the weights into the footprint."""
        return {
            ModelSize.NAME: weighed(trace, trace.size_bytes),
            MemoryFootprint.NAME: memory_footprint(trace, include_weights),
        }


def weighed(trace: ModelTrace, total: int) -> Any:
    """Return a total over the weights: a lower bound where some are not made yet, a failure where none is."""
    if not trace.unmade_weights:
        return total
    if total:
        return Partial(total, (trace.unmade_weights,))
    if isinstance(trace.failure, ModelFailedError):
        return Failure(trace.failure)
    return Failure(WithoutValuesError(f"not counted: {trace.unmade_weights}"))
