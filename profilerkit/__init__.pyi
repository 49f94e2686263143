# Written by docs/make_tables.py.

from profilerkit_audits import audit as audit
from profilerkit_predict.joining import JoinedProfile as JoinedProfile
from profilerkit_predict.joining import join as join
from profilerkit_predict.language_models import kv_bytes as kv_bytes
from profilerkit_predict.language_models import kv_bytes_per_token as kv_bytes_per_token
from profilerkit_predict.language_models import llm as llm
from profilerkit_predict.meshes.execution_traces import write_execution_traces as write_execution_traces
from profilerkit_predict.meshes.fitting import find_mesh as find_mesh
from profilerkit_predict.meshes.step_timeline import write_step_timeline as write_step_timeline
from profilerkit_predict.prediction.predicting import predict as predict
from profilerkit_predict.prediction.result import Prediction as Prediction

from .api import compare as compare
from .api import profile as profile
from .backend import Backend as Backend
from .backend import Device as Device
from .backend import RunOptions as RunOptions
from .data_splits import DataLoader as DataLoader
from .data_splits import ForwardPass as ForwardPass
from .data_splits import ModelInputPattern as ModelInputPattern
from .devices.info import DeviceInfo as DeviceInfo
from .errors import ArgumentError as ArgumentError
from .errors import ArgumentWarning as ArgumentWarning
from .errors import BackendFailedError as BackendFailedError
from .errors import BackendNotFoundError as BackendNotFoundError
from .errors import BackendNotInstalledError as BackendNotInstalledError
from .errors import BudgetError as BudgetError
from .errors import CostFormulaError as CostFormulaError
from .errors import DependencyCycleError as DependencyCycleError
from .errors import DeviceFileError as DeviceFileError
from .errors import DeviceNotAvailableError as DeviceNotAvailableError
from .errors import DeviceNotKnownError as DeviceNotKnownError
from .errors import FailureCode as FailureCode
from .errors import IncompleteStatusError as IncompleteStatusError
from .errors import InputError as InputError
from .errors import InvalidTraceError as InvalidTraceError
from .errors import MissingArgumentError as MissingArgumentError
from .errors import ModelChangedWarning as ModelChangedWarning
from .errors import ModelFailedError as ModelFailedError
from .errors import NotOfferedError as NotOfferedError
from .errors import PlacementError as PlacementError
from .errors import PlanError as PlanError
from .errors import PluginFailedError as PluginFailedError
from .errors import PluginWarning as PluginWarning
from .errors import ProfileFileError as ProfileFileError
from .errors import ProfilerBusyError as ProfilerBusyError
from .errors import ProfilerKitError as ProfilerKitError
from .errors import ProfilerKitWarning as ProfilerKitWarning
from .errors import RegistrationConflictError as RegistrationConflictError
from .errors import RegistrationWarning as RegistrationWarning
from .errors import ReportFileError as ReportFileError
from .errors import StoreError as StoreError
from .errors import TracingError as TracingError
from .errors import UnknownStatusError as UnknownStatusError
from .errors import WithoutValuesError as WithoutValuesError
from .hooks.infos import BackendInfo as BackendInfo
from .hooks.infos import CommandInfo as CommandInfo
from .hooks.infos import FigureInfo as FigureInfo
from .hooks.infos import LoadedModel as LoadedModel
from .hooks.infos import LoaderInfo as LoaderInfo
from .hooks.infos import OptionInfo as OptionInfo
from .hooks.infos import PlacementInfo as PlacementInfo
from .hooks.infos import RendererInfo as RendererInfo
from .hookspecs import hookimpl as hookimpl
from .input_shapes import TensorSpec as TensorSpec
from .inputs import ModelInputs as ModelInputs
from .isolation import isolated as isolated
from .piping.comparative import Comparative as Comparative
from .piping.external_function import ExternalProfilerFunction as ExternalProfilerFunction
from .piping.function import JointFunction as JointFunction
from .piping.function import ProfilerFunction as ProfilerFunction
from .piping.outcome import Completeness as Completeness
from .piping.outcome import Failure as Failure
from .piping.outcome import Noted as Noted
from .piping.outcome import Partial as Partial
from .piping.outcome import Unavailable as Unavailable
from .piping.plain_functions import metric as metric
from .piping.quantity import Scale as Scale
from .piping.status import Metric as Metric
from .piping.status import StatusKey as StatusKey
from .profiler import Profiler as Profiler
from .results.comparison import Comparison as Comparison
from .results.report import Report as Report
from .results.saving import load as load
from .times.measurement import Measurement as Measurement
from .times.ratio import Ratio as Ratio
from .times.run import Run as Run
from .trace.records import ModelTrace as ModelTrace

__all__ = [
    "ArgumentError",
    "ArgumentWarning",
    "Backend",
    "BackendFailedError",
    "BackendInfo",
    "BackendNotFoundError",
    "BackendNotInstalledError",
    "BudgetError",
    "CommandInfo",
    "Comparative",
    "Comparison",
    "Completeness",
    "CostFormulaError",
    "DependencyCycleError",
    "DeviceFileError",
    "DeviceInfo",
    "DeviceNotAvailableError",
    "DeviceNotKnownError",
    "ExternalProfilerFunction",
    "Failure",
    "FailureCode",
    "FigureInfo",
    "ForwardPass",
    "IncompleteStatusError",
    "InputError",
    "InvalidTraceError",
    "JoinedProfile",
    "JointFunction",
    "LoadedModel",
    "LoaderInfo",
    "Measurement",
    "MissingArgumentError",
    "ModelChangedWarning",
    "ModelFailedError",
    "ModelInputPattern",
    "ModelInputs",
    "ModelTrace",
    "NotOfferedError",
    "Noted",
    "OptionInfo",
    "PlacementError",
    "PlacementInfo",
    "PlanError",
    "PluginFailedError",
    "PluginWarning",
    "Prediction",
    "ProfileFileError",
    "Profiler",
    "ProfilerBusyError",
    "ProfilerFunction",
    "ProfilerKitError",
    "ProfilerKitWarning",
    "Ratio",
    "RegistrationConflictError",
    "RegistrationWarning",
    "RendererInfo",
    "Report",
    "ReportFileError",
    "Run",
    "Scale",
    "StatusKey",
    "StoreError",
    "TracingError",
    "Unavailable",
    "UnknownStatusError",
    "WithoutValuesError",
    "audit",
    "compare",
    "find_mesh",
    "hookimpl",
    "isolated",
    "kv_bytes",
    "kv_bytes_per_token",
    "llm",
    "metric",
    "predict",
    "profile",
    "write_execution_traces",
    "write_step_timeline",
]
