"""The metrics as a plugin: they come through the same hooks as anyone's."""

from __future__ import annotations

import profilerkit_metrics
from profilerkit import Backend, ProfilerFunction, StatusKey, hookimpl

from . import (
    ComputeBatchSweep,
    ComputeComplexity,
    ComputeEffectiveMacs,
    ComputeExecutionTime,
    ComputeFirstCall,
    ComputeLayerTimes,
    ComputeMeasuredMemory,
    ComputeOperatorTable,
    ComputeSparsity,
    ComputeTraining,
    ComputeTrainingTime,
    ComputeWatchedSteps,
)


@hookimpl
def profilerkit_profiler_functions(backend: Backend) -> list[ProfilerFunction]:
    """Offer the metrics that need nothing but a model and inputs, for every backend."""
    return [
        ComputeComplexity(),
        ComputeExecutionTime(),
        ComputeFirstCall(),
        ComputeLayerTimes(),
        ComputeOperatorTable(),
        ComputeTraining(),
        ComputeMeasuredMemory(),
        ComputeSparsity(),
        ComputeEffectiveMacs(),
        ComputeTrainingTime(),
        ComputeWatchedSteps(),
        ComputeBatchSweep(),
    ]


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Name every status key of this package whose name is its own."""
    public = [getattr(profilerkit_metrics, name) for name in profilerkit_metrics.__all__]
    return [found for found in public if issubclass(found, StatusKey) and "NAME" in vars(found)]
