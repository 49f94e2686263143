"""The metrics of profilerkit, written once over the backend interface."""

from __future__ import annotations

from .complexity import ComputeComplexity, ComputeFlops, ComputeParams, Flops, Macs, TotalParams, TrainableParams
from .evaluation import ComputeEvalMetric, DynamicEvalMetric, EvalMetric, InferenceTime
from .execution_time import ComputeExecutionTime, ExecutionTime, Throughput
from .layerwise import ComputeLayerwiseSummary, LayerwiseData, LayerwiseSummary
from .memory import MemoryFootprint
from .size import ComputeSize, ModelSize

__all__ = [
    "ComputeComplexity",
    "ComputeEvalMetric",
    "ComputeExecutionTime",
    "ComputeFlops",
    "ComputeLayerwiseSummary",
    "ComputeParams",
    "ComputeSize",
    "DynamicEvalMetric",
    "EvalMetric",
    "ExecutionTime",
    "Flops",
    "InferenceTime",
    "LayerwiseData",
    "LayerwiseSummary",
    "Macs",
    "MemoryFootprint",
    "ModelSize",
    "Throughput",
    "TotalParams",
    "TrainableParams",
]
