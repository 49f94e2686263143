"""The metrics as a plugin: they come through the same hooks as anyone's."""

from __future__ import annotations

from profilerkit import Backend, ProfilerFunction, hookimpl

from . import ComputeComplexity, ComputeExecutionTime, ComputeFirstCall, ComputeLayerTimes, ComputeTraining


@hookimpl
def profilerkit_profiler_functions(backend: Backend) -> list[ProfilerFunction]:
    """Offer the metrics that need nothing but a model and inputs, for every backend."""
    return [
        ComputeComplexity(),
        ComputeExecutionTime(),
        ComputeFirstCall(),
        ComputeLayerTimes(),
        ComputeTraining(),
    ]
