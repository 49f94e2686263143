"""profilerkit: what a neural network costs, measured with one set of definitions in every framework.

>>> import profilerkit
>>> profilerkit.Comparative.parse("diff").name
'DIFF'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from profilerkit_audits import audit
    from profilerkit_predict.joining import JoinedProfile
    from profilerkit_predict.joining import join as join
    from profilerkit_predict.language_models import kv_bytes, kv_bytes_per_token, llm
    from profilerkit_predict.meshes.fitting import find_mesh
    from profilerkit_predict.prediction.predicting import predict
    from profilerkit_predict.prediction.result import Prediction

    from .api import compare, profile
    from .backend import Backend
    from .backend import Device as Device
    from .backend import RunOptions as RunOptions
    from .data_splits import DataLoader as DataLoader
    from .data_splits import ForwardPass, ModelInputPattern
    from .devices.info import DeviceInfo
    from .errors import (
        ArgumentError,
        ArgumentWarning,
        BackendFailedError,
        BackendNotFoundError,
        BackendNotInstalledError,
        BudgetError,
        CostFormulaError,
        DependencyCycleError,
        DeviceFileError,
        DeviceNotAvailableError,
        DeviceNotKnownError,
        FailureCode,
        IncompleteStatusError,
        InputError,
        InvalidTraceError,
        MissingArgumentError,
        ModelChangedWarning,
        ModelFailedError,
        NotOfferedError,
        PlacementError,
        PlanError,
        PluginFailedError,
        PluginWarning,
        ProfileFileError,
        ProfilerBusyError,
        ProfilerKitError,
        ProfilerKitWarning,
        RegistrationConflictError,
        RegistrationWarning,
        ReportFileError,
        StoreError,
        TracingError,
        UnknownStatusError,
        WithoutValuesError,
    )
    from .hooks.infos import (
        BackendInfo,
        CommandInfo,
        FigureInfo,
        LoadedModel,
        LoaderInfo,
        OptionInfo,
        PlacementInfo,
        RendererInfo,
    )
    from .hookspecs import hookimpl
    from .input_shapes import TensorSpec as TensorSpec
    from .inputs import ModelInputs
    from .isolation import isolated
    from .piping.comparative import Comparative
    from .piping.external_function import ExternalProfilerFunction
    from .piping.function import JointFunction, ProfilerFunction
    from .piping.outcome import Completeness, Failure, Noted, Unavailable
    from .piping.outcome import Partial as Partial
    from .piping.plain_functions import metric
    from .piping.quantity import Scale
    from .piping.status import Metric as Metric
    from .piping.status import StatusKey
    from .profiler import Profiler
    from .results.comparison import Comparison
    from .results.report import Report
    from .results.saving import load as load
    from .times.measurement import Measurement
    from .times.ratio import Ratio
    from .times.run import Run
    from .trace.records import ModelTrace

#: The names of ``from profilerkit import *``. Names that frameworks and Python also have are left out.
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
]

#: Where each name comes from. A test holds this, the imports above and `__all__` together.
_MODULES = module_of_each(
    {
        ".api": "compare profile",
        "profilerkit_audits": "audit",
        ".backend": "Backend Device RunOptions",
        ".devices.info": "DeviceInfo",
        ".errors": """
            ArgumentError ArgumentWarning BackendFailedError BackendNotFoundError
            BackendNotInstalledError BudgetError CostFormulaError DependencyCycleError
            DeviceFileError DeviceNotAvailableError DeviceNotKnownError FailureCode IncompleteStatusError
            InputError InvalidTraceError MissingArgumentError ModelChangedWarning ModelFailedError
            NotOfferedError PlacementError PlanError PluginFailedError PluginWarning ProfileFileError
            ProfilerBusyError ProfilerKitError ProfilerKitWarning RegistrationConflictError RegistrationWarning
            ReportFileError StoreError TracingError UnknownStatusError WithoutValuesError
        """,
        ".hookspecs": "hookimpl",
        ".data_splits": "DataLoader ForwardPass ModelInputPattern",
        ".input_shapes": "TensorSpec",
        ".inputs": "ModelInputs",
        ".isolation": "isolated",
        "profilerkit_predict.joining": "JoinedProfile join",
        "profilerkit_predict.language_models": "kv_bytes kv_bytes_per_token llm",
        ".piping.comparative": "Comparative",
        ".piping.external_function": "ExternalProfilerFunction",
        ".piping.plain_functions": "metric",
        ".piping.function": "JointFunction ProfilerFunction",
        ".piping.outcome": "Completeness Failure Noted Partial Unavailable",
        ".piping.quantity": "Scale",
        ".piping.status": "Metric StatusKey",
        ".hooks.infos": """
            BackendInfo CommandInfo FigureInfo LoadedModel LoaderInfo OptionInfo PlacementInfo RendererInfo
        """,
        "profilerkit_predict.meshes.fitting": "find_mesh",
        "profilerkit_predict.prediction.predicting": "predict",
        "profilerkit_predict.prediction.result": "Prediction",
        ".profiler": "Profiler",
        ".results.comparison": "Comparison",
        ".results.report": "Report",
        ".results.saving": "load",
        ".times.measurement": "Measurement",
        ".times.ratio": "Ratio",
        ".times.run": "Run",
        ".trace.records": "ModelTrace",
    }
)

install_lazy_names(__name__, _MODULES)
