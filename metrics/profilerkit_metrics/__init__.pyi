# Written by docs/make_tables.py.

from .attended_macs import AttendedMacs as AttendedMacs
from .attended_macs import ComputeAttendedMacs as ComputeAttendedMacs
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
from .largest_batch import ComputeLargestBatch as ComputeLargestBatch
from .largest_batch import ComputeLargestTrainingBatch as ComputeLargestTrainingBatch
from .largest_batch import LargestBatch as LargestBatch
from .largest_batch import LargestTrainingBatch as LargestTrainingBatch
from .layer_times import ComputeLayerTimes as ComputeLayerTimes
from .layer_times import LayerTimes as LayerTimes
from .measured_memory import ComputeMeasuredMemory as ComputeMeasuredMemory
from .measured_memory import MeasuredMemory as MeasuredMemory
from .numbers_by_dtype import BitsPerParam as BitsPerParam
from .numbers_by_dtype import ComputeNumbersByDtype as ComputeNumbersByDtype
from .numbers_by_dtype import MacsByDtype as MacsByDtype
from .operator_table import ComputeOperatorTable as ComputeOperatorTable
from .operator_table import OperatorTable as OperatorTable
from .output_difference import ComputeOutputDifference as ComputeOutputDifference
from .output_difference import OutputDifference as OutputDifference
from .output_difference import RelativeOutputDifference as RelativeOutputDifference
from .pruning import ComputeSparsity as ComputeSparsity
from .pruning import Sparsity as Sparsity
from .pruning import effective_macs as effective_macs
from .static import ComputeComplexity as ComputeComplexity
from .static import ComputeFlops as ComputeFlops
from .static import ComputeLayerwiseSummary as ComputeLayerwiseSummary
from .static import ComputeMemoryFootprint as ComputeMemoryFootprint
from .static import ComputeModelSize as ComputeModelSize
from .static import ComputeParams as ComputeParams
from .static import ComputeSize as ComputeSize
from .static import Flops as Flops
from .static import LayerwiseData as LayerwiseData
from .static import LayerwiseSummary as LayerwiseSummary
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
from .utilization import ComputeMbu as ComputeMbu
from .utilization import ComputeMfu as ComputeMfu
from .utilization import ComputeTrainingUtilization as ComputeTrainingUtilization
from .utilization import Mbu as Mbu
from .utilization import Mfu as Mfu
from .utilization import TrainingHfu as TrainingHfu
from .utilization import TrainingMfu as TrainingMfu
from .watched_steps import BackwardTime as BackwardTime
from .watched_steps import ComputeWatchedSteps as ComputeWatchedSteps
from .watched_steps import ForwardTime as ForwardTime
from .watched_steps import OptimizerTime as OptimizerTime
from .watched_steps import OtherTime as OtherTime
from .watched_steps import StepMemory as StepMemory
from .watched_steps import StepTime as StepTime
from .watched_utilization import ComputeWatchedUtilization as ComputeWatchedUtilization
from .watched_utilization import StepHfu as StepHfu
from .watched_utilization import StepMfu as StepMfu

__all__ = [
    "AttendedMacs",
    "BackwardTime",
    "BatchSweep",
    "BitsPerParam",
    "ComputeAttendedMacs",
    "ComputeBatchSweep",
    "ComputeComplexity",
    "ComputeEvalMetric",
    "ComputeExecutionTime",
    "ComputeFirstCall",
    "ComputeFlops",
    "ComputeLargestBatch",
    "ComputeLargestTrainingBatch",
    "ComputeLayerTimes",
    "ComputeLayerwiseSummary",
    "ComputeMbu",
    "ComputeMeasuredMemory",
    "ComputeMemoryFootprint",
    "ComputeMfu",
    "ComputeModelSize",
    "ComputeNumbersByDtype",
    "ComputeOperatorTable",
    "ComputeOutputDifference",
    "ComputeParams",
    "ComputeSize",
    "ComputeSparsity",
    "ComputeTraining",
    "ComputeTrainingTime",
    "ComputeTrainingUtilization",
    "ComputeWatchedSteps",
    "ComputeWatchedUtilization",
    "DynamicEvalMetric",
    "EvalMetric",
    "ExecutionTime",
    "FirstCallTime",
    "Flops",
    "ForwardTime",
    "InferenceTime",
    "LargestBatch",
    "LargestTrainingBatch",
    "LayerTimes",
    "LayerwiseData",
    "LayerwiseSummary",
    "Macs",
    "MacsByDtype",
    "Mbu",
    "MeasuredMemory",
    "MemoryFootprint",
    "Mfu",
    "ModelSize",
    "OperatorTable",
    "OptimizerTime",
    "OtherTime",
    "OutputDifference",
    "RelativeOutputDifference",
    "Sparsity",
    "StepHfu",
    "StepMemory",
    "StepMfu",
    "StepTime",
    "Throughput",
    "TotalParams",
    "TrainableParams",
    "TrainingFlops",
    "TrainingHfu",
    "TrainingLayers",
    "TrainingMacs",
    "TrainingMemory",
    "TrainingMemoryParts",
    "TrainingMfu",
    "TrainingTime",
    "effective_macs",
]
