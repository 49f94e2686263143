"""The metrics of profilerkit, written once over the backend interface."""

from __future__ import annotations

from .batch_sweep import BatchSweep, ComputeBatchSweep
from .complexity import ComputeComplexity, ComputeFlops, ComputeParams, Flops, Macs, TotalParams, TrainableParams
from .evaluation import ComputeEvalMetric, DynamicEvalMetric, EvalMetric, InferenceTime
from .execution_time import (
    ComputeExecutionTime,
    ComputeFirstCall,
    ComputeTrainingTime,
    ExecutionTime,
    FirstCallTime,
    Throughput,
    TrainingTime,
)
from .layer_times import ComputeLayerTimes, LayerTimes
from .layerwise import ComputeLayerwiseSummary, LayerwiseData, LayerwiseSummary
from .memory import MemoryFootprint
from .operator_table import ComputeOperatorTable, OperatorTable
from .size import ComputeSize, ModelSize
from .training import ComputeTraining, TrainingFlops, TrainingMacs, TrainingMemory

__all__ = [
    "BatchSweep",
    "ComputeBatchSweep",
    "ComputeComplexity",
    "ComputeEvalMetric",
    "ComputeExecutionTime",
    "ComputeFirstCall",
    "ComputeFlops",
    "ComputeLayerTimes",
    "ComputeLayerwiseSummary",
    "ComputeOperatorTable",
    "ComputeParams",
    "ComputeSize",
    "ComputeTraining",
    "ComputeTrainingTime",
    "DynamicEvalMetric",
    "EvalMetric",
    "ExecutionTime",
    "FirstCallTime",
    "Flops",
    "InferenceTime",
    "LayerTimes",
    "LayerwiseData",
    "LayerwiseSummary",
    "Macs",
    "MemoryFootprint",
    "ModelSize",
    "OperatorTable",
    "Throughput",
    "TotalParams",
    "TrainableParams",
    "TrainingFlops",
    "TrainingMacs",
    "TrainingMemory",
    "TrainingTime",
]
