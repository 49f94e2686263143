"""What follows from one static pass over a model: parameters, size, arithmetic, memory, layers."""

from __future__ import annotations

from typing import Any

from profilerkit import Comparative, Metric, Noted, ProfilerFunction, Scale
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

from .layerwise import LayerwiseData, LayerwiseSummary, layerwise

__all__ = [
    "ComputeComplexity",
    "ComputeFlops",
    "ComputeParams",
    "ComputeSize",
    "Flops",
    "Macs",
    "MemoryFootprint",
    "ModelSize",
    "TotalParams",
    "TrainableParams",
]


class Macs(Metric):
    """Multiply-accumulates of matrix products, convolutions, attention and recurrent gates in one forward pass."""

    NAME = "macs"
    FRIENDLY_NAME = "MACs"
    UNIT = "MACs"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL
    DERIVED_FROM = TracePart.OPERATORS


class Flops(Metric):
    """All floating-point operations in one forward pass, two for each multiply-accumulate."""

    NAME = "flops"
    FRIENDLY_NAME = "FLOPs"
    UNIT = "FLOPs"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL
    DERIVED_FROM = TracePart.OPERATORS


class TotalParams(Metric):
    """Elements of the distinct parameters: tied ones once, frozen ones included, buffers left out."""

    NAME = "total_params"
    FRIENDLY_NAME = "Total Parameters"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL
    DERIVED_FROM = TracePart.WEIGHTS


class TrainableParams(Metric):
    """Elements of the distinct parameters that training changes."""

    NAME = "trainable_params"
    FRIENDLY_NAME = "Trainable Parameters"
    SCALE = Scale.SI
    COMPARATIVE = Comparative.RECIPROCAL
    DERIVED_FROM = TracePart.WEIGHTS


class ModelSize(Metric):
    """Bytes of the distinct parameters and persistent buffers at their own dtypes."""

    NAME = "model_size"
    UNIT = "B"
    SCALE = Scale.IEC
    COMPARATIVE = Comparative.RECIPROCAL
    DERIVED_FROM = TracePart.WEIGHTS


class MemoryFootprint(Metric):
    """Peak bytes alive at once in one forward pass without gradients: weights, inputs and activations."""

    NAME = "memory_footprint"
    UNIT = "B"
    SCALE = Scale.IEC
    COMPARATIVE = Comparative.RECIPROCAL
    DERIVED_FROM = TracePart.MEMORY


class ComputeParams(ProfilerFunction):
    """Counts parameters; the model need not run for it."""

    KEYS = (TotalParams, TrainableParams)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both counts."""
        return {TotalParams.NAME: trace.total_params, TrainableParams.NAME: trace.trainable_params}


class ComputeFlops(ProfilerFunction):
    """Counts multiply-accumulates and floating-point operations of one forward pass."""

    KEYS = (Macs, Flops)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both counts."""
        return {Macs.NAME: trace.macs, Flops.NAME: trace.flops}


class ComputeSize(ProfilerFunction):
    """Computes what the model needs in memory: its size, and the peak while it runs."""

    KEYS = (ModelSize, MemoryFootprint)

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> dict[str, Any]:
        """Return both in bytes; ``include_weights`` counts the weights into the footprint."""
        peak = trace.memory.peak_bytes(include_weights)
        footprint = Noted(peak, trace.memory.note) if trace.memory.note else peak
        return {ModelSize.NAME: trace.size_bytes, MemoryFootprint.NAME: footprint}


class ComputeComplexity(ProfilerFunction):
    """Computes all static metrics at once: parameters, size, MACs, FLOPs, memory footprint, layers."""

    KEYS = (TotalParams, TrainableParams, ModelSize, Macs, Flops, MemoryFootprint, LayerwiseSummary, LayerwiseData)

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> dict[str, Any]:
        """Return every static metric by name; ``include_weights`` counts the weights into the footprint."""
        sizes = ComputeSize()(trace, include_weights)
        return {**ComputeParams()(trace), **ComputeFlops()(trace), **sizes, **layerwise(trace)}
