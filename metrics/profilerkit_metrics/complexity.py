"""How much arithmetic a model does, and how many parameters it does it with."""

from __future__ import annotations

from typing import Any

from profilerkit import Comparative, Failure, Metric, Partial, ProfilerFunction, Scale
from profilerkit.trace.records import ModelTrace

from .layerwise import LayerwiseData, LayerwiseSummary, layerwise
from .memory import MemoryFootprint, memory_footprint
from .size import ModelSize, weighed

__all__ = ["ComputeComplexity", "ComputeFlops", "ComputeParams", "Flops", "Macs", "TotalParams", "TrainableParams"]


class Macs(Metric):
    """Multiply-accumulates of matrix products, convolutions, attention and recurrent gates in one forward pass."""

    NAME = "macs"
    FRIENDLY_NAME = "MACs"
    UNIT = "MACs"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL


class Flops(Metric):
    """All floating-point operations in one forward pass, two for each multiply-accumulate."""

    NAME = "flops"
    FRIENDLY_NAME = "FLOPs"
    UNIT = "FLOPs"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL


class TotalParams(Metric):
    """Elements of the distinct parameters: tied ones once, frozen ones included, buffers left out."""

    NAME = "total_params"
    FRIENDLY_NAME = "Total Parameters"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL


class TrainableParams(Metric):
    """Elements of the distinct parameters that training changes."""

    NAME = "trainable_params"
    FRIENDLY_NAME = "Trainable Parameters"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL


class ComputeParams(ProfilerFunction):
    """Counts parameters; the model need not run for it."""

    KEYS = (TotalParams, TrainableParams)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both counts."""
        return params(trace)


class ComputeFlops(ProfilerFunction):
    """Counts multiply-accumulates and floating-point operations of one forward pass."""

    KEYS = (Macs, Flops)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both counts; lower bounds where the cost of an operator is not known."""
        return operations(trace)


class ComputeComplexity(ProfilerFunction):
    """Computes all static metrics at once: parameters, size, MACs, FLOPs, memory footprint, layers."""

    KEYS = (TotalParams, TrainableParams, ModelSize, Macs, Flops, MemoryFootprint, LayerwiseSummary, LayerwiseData)

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> dict[str, Any]:
        """Return every static metric by name; ``include_weights`` counts the weights into the footprint."""
        return {
            **params(trace),
            ModelSize.NAME: weighed(trace, trace.size_bytes),
            **operations(trace),
            MemoryFootprint.NAME: memory_footprint(trace, include_weights),
            **layerwise(trace),
        }


def params(trace: ModelTrace) -> dict[str, Any]:
    """Return the parameter counts by name."""
    counts = {TotalParams.NAME: trace.total_params, TrainableParams.NAME: trace.trainable_params}
    return {name: weighed(trace, count) for name, count in counts.items()}


def operations(trace: ModelTrace) -> dict[str, Any]:
    """Return the operation counts by name, marked partial where the trace misses something."""
    if trace.failure is not None:
        return {Macs.NAME: Failure(trace.failure), Flops.NAME: Failure(trace.failure)}
    counts = {Macs.NAME: trace.macs, Flops.NAME: trace.flops}
    if not trace.uncounted:
        return dict(counts)
    return {name: Partial(count, trace.missing) for name, count in counts.items()}
