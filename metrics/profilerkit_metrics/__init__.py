"""The metrics of profilerkit, written once over the backend interface."""

from __future__ import annotations

from .complexity import ComputeComplexity, ComputeFlops, ComputeParams, Flops, Macs, TotalParams, TrainableParams
from .evaluation import ComputeEvalMetric, DynamicEvalMetric, EvalMetric, InferenceTime
from .execution_time import ComputeExecutionTime, ComputeFirstCall, ExecutionTime, FirstCallTime, Throughput
from .layer_times import ComputeLayerTimes, LayerTimes
from .layerwise import ComputeLayerwiseSummary, LayerwiseData, LayerwiseSummary
from .memory import ComputeMeasuredMemory, MeasuredMemory, MemoryFootprint
from .pruning import ComputeEffectiveMacs, ComputeSparsity, EffectiveMacs, Sparsity
from .size import ComputeSize, ModelSize
from .training import (
    ComputeTraining,
    TrainingFlops,
    TrainingLayers,
    TrainingMacs,
    TrainingMemory,
    TrainingMemoryParts,
)

__all__ = [
    "ComputeComplexity",
    "ComputeEffectiveMacs",
    "ComputeEvalMetric",
    "ComputeExecutionTime",
    "ComputeFirstCall",
    "ComputeFlops",
    "ComputeLayerTimes",
    "ComputeLayerwiseSummary",
    "ComputeMeasuredMemory",
    "ComputeParams",
    "ComputeSize",
    "ComputeSparsity",
    "ComputeTraining",
    "DynamicEvalMetric",
    "EffectiveMacs",
    "EvalMetric",
    "ExecutionTime",
    "FirstCallTime",
    "Flops",
    "InferenceTime",
    "LayerTimes",
    "LayerwiseData",
    "LayerwiseSummary",
    "Macs",
    "MeasuredMemory",
    "MemoryFootprint",
    "ModelSize",
    "Sparsity",
    "Throughput",
    "TotalParams",
    "TrainableParams",
    "TrainingFlops",
    "TrainingLayers",
    "TrainingMacs",
    "TrainingMemory",
    "TrainingMemoryParts",
]
