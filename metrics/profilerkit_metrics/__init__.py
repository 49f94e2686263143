"""The metrics of profilerkit, written once over the backend interface."""

from __future__ import annotations

from .batch_sweep import BatchSweep, ComputeBatchSweep
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
from .measured_memory import ComputeMeasuredMemory, MeasuredMemory
from .operator_table import ComputeOperatorTable, OperatorTable
from .pruning import ComputeEffectiveMacs, ComputeSparsity, EffectiveMacs, Sparsity
from .static import (
    ComputeComplexity,
    ComputeFlops,
    ComputeParams,
    ComputeSize,
    Flops,
    Macs,
    MemoryFootprint,
    ModelSize,
    TotalParams,
    TrainableParams,
)
from .training import (
    ComputeTraining,
    TrainingFlops,
    TrainingLayers,
    TrainingMacs,
    TrainingMemory,
    TrainingMemoryParts,
)
from .watched_steps import (
    BackwardTime,
    ComputeWatchedSteps,
    ForwardTime,
    OptimizerTime,
    OtherTime,
    StepMemory,
    StepTime,
)

__all__ = [
    "BackwardTime",
    "BatchSweep",
    "ComputeBatchSweep",
    "ComputeComplexity",
    "ComputeEffectiveMacs",
    "ComputeEvalMetric",
    "ComputeExecutionTime",
    "ComputeFirstCall",
    "ComputeFlops",
    "ComputeLayerTimes",
    "ComputeLayerwiseSummary",
    "ComputeMeasuredMemory",
    "ComputeOperatorTable",
    "ComputeParams",
    "ComputeSize",
    "ComputeSparsity",
    "ComputeTraining",
    "ComputeTrainingTime",
    "ComputeWatchedSteps",
    "DynamicEvalMetric",
    "EffectiveMacs",
    "EvalMetric",
    "ExecutionTime",
    "FirstCallTime",
    "Flops",
    "ForwardTime",
    "InferenceTime",
    "LayerTimes",
    "LayerwiseData",
    "LayerwiseSummary",
    "Macs",
    "MeasuredMemory",
    "MemoryFootprint",
    "ModelSize",
    "OperatorTable",
    "OptimizerTime",
    "OtherTime",
    "Sparsity",
    "StepMemory",
    "StepTime",
    "Throughput",
    "TotalParams",
    "TrainableParams",
    "TrainingFlops",
    "TrainingLayers",
    "TrainingMacs",
    "TrainingMemory",
    "TrainingMemoryParts",
    "TrainingTime",
]
