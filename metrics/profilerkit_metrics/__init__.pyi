# Written by docs/make_tables.py.

from .batch_sweep import BatchSweep as BatchSweep
from .batch_sweep import ComputeBatchSweep as ComputeBatchSweep
from .evaluation import ComputeEvalMetric as ComputeEvalMetric
from .evaluation import DynamicEvalMetric as DynamicEvalMetric
from .evaluation import EvalMetric as EvalMetric
from .evaluation import InferenceTime as InferenceTime
from .execution_time import ComputeExecutionTime as ComputeExecutionTime
from .execution_time import ComputeFirstCall as ComputeFirstCall
from .execution_time import ComputeTrainingTime as ComputeTrainingTime
from .execution_time import ExecutionTime as ExecutionTime
from .execution_time import FirstCallTime as FirstCallTime
from .execution_time import Throughput as Throughput
from .execution_time import TrainingTime as TrainingTime
from .layer_times import ComputeLayerTimes as ComputeLayerTimes
from .layer_times import LayerTimes as LayerTimes
from .layerwise import ComputeLayerwiseSummary as ComputeLayerwiseSummary
from .layerwise import LayerwiseData as LayerwiseData
from .layerwise import LayerwiseSummary as LayerwiseSummary
from .measured_memory import ComputeMeasuredMemory as ComputeMeasuredMemory
from .measured_memory import MeasuredMemory as MeasuredMemory
from .operator_table import ComputeOperatorTable as ComputeOperatorTable
from .operator_table import OperatorTable as OperatorTable
from .pruning import ComputeSparsity as ComputeSparsity
from .pruning import Sparsity as Sparsity
from .pruning import effective_macs as effective_macs
from .static import ComputeComplexity as ComputeComplexity
from .static import ComputeFlops as ComputeFlops
from .static import ComputeParams as ComputeParams
from .static import ComputeSize as ComputeSize
from .static import Flops as Flops
from .static import Macs as Macs
from .static import MemoryFootprint as MemoryFootprint
from .static import ModelSize as ModelSize
from .static import TotalParams as TotalParams
from .static import TrainableParams as TrainableParams
from .training import ComputeTraining as ComputeTraining
from .training import TrainingFlops as TrainingFlops
from .training import TrainingLayers as TrainingLayers
from .training import TrainingMacs as TrainingMacs
from .training import TrainingMemory as TrainingMemory
from .training import TrainingMemoryParts as TrainingMemoryParts
from .watched_steps import BackwardTime as BackwardTime
from .watched_steps import ComputeWatchedSteps as ComputeWatchedSteps
from .watched_steps import ForwardTime as ForwardTime
from .watched_steps import OptimizerTime as OptimizerTime
from .watched_steps import OtherTime as OtherTime
from .watched_steps import StepMemory as StepMemory
from .watched_steps import StepTime as StepTime

__all__ = [
    "BackwardTime",
    "BatchSweep",
    "ComputeBatchSweep",
    "ComputeComplexity",
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
    "effective_macs",
]
