"""profilerkit: what a neural network costs, measured with one set of definitions in every framework.

>>> import profilerkit
>>> profilerkit.Comparative.parse("diff").name
'DIFF'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .process.lazy import lazy_names

if TYPE_CHECKING:
    from .api import compare, profile
    from .backend import Backend, BackendInfo, Device, RunOptions
    from .errors import (
        ArgumentError,
        ArgumentWarning,
        BackendFailedError,
        BackendNotFoundError,
        BackendNotInstalledError,
        BudgetError,
        CostFormulaError,
        DependencyCycleError,
        DeviceNotAvailableError,
        IncompleteStatusError,
        InputError,
        InvalidTraceError,
        MissingArgumentError,
        ModelChangedWarning,
        ModelFailedError,
        NotOfferedError,
        PluginFailedError,
        PluginWarning,
        ProfilerBusyError,
        ProfilerKitError,
        ProfilerKitWarning,
        RegistrationConflictError,
        RegistrationWarning,
        ReportFileError,
        TracingError,
        UnknownStatusError,
        WithoutValuesError,
    )
    from .hookspecs import hookimpl
    from .inputs import DataLoader, ForwardPass, ModelInputPattern, ModelInputs, TensorSpec
    from .isolation import isolated
    from .piping.function import ExternalProfilerFunction, JointFunction, ProfilerFunction
    from .piping.plain_metric import metric
    from .piping.quantity import Scale
    from .piping.status import Comparative, Completeness, Failure, Metric, Noted, Partial, StatusKey, Unavailable
    from .plugging.extension import LoadedModel, LoaderInfo, RendererInfo
    from .profiler import Profiler
    from .results.comparison import Comparison
    from .results.report import Report
    from .results.saving import load
    from .times.measurement import Measurement, Ratio
    from .times.run import Run
    from .trace.records import ModelTrace

__all__ = [
    "ArgumentError",
    "ArgumentWarning",
    "Backend",
    "BackendFailedError",
    "BackendInfo",
    "BackendNotFoundError",
    "BackendNotInstalledError",
    "BudgetError",
    "Comparative",
    "Comparison",
    "Completeness",
    "CostFormulaError",
    "DataLoader",
    "DependencyCycleError",
    "Device",
    "DeviceNotAvailableError",
    "ExternalProfilerFunction",
    "Failure",
    "ForwardPass",
    "IncompleteStatusError",
    "InputError",
    "InvalidTraceError",
    "JointFunction",
    "LoadedModel",
    "LoaderInfo",
    "Measurement",
    "Metric",
    "MissingArgumentError",
    "ModelChangedWarning",
    "ModelFailedError",
    "ModelInputPattern",
    "ModelInputs",
    "ModelTrace",
    "NotOfferedError",
    "Noted",
    "Partial",
    "PluginFailedError",
    "PluginWarning",
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
    "RunOptions",
    "Scale",
    "StatusKey",
    "TensorSpec",
    "TracingError",
    "Unavailable",
    "UnknownStatusError",
    "WithoutValuesError",
    "compare",
    "hookimpl",
    "isolated",
    "load",
    "metric",
    "profile",
]

#: Where each name comes from. A test holds this, the imports above and `__all__` together.
_MODULES = {
    "ArgumentError": ".errors",
    "ArgumentWarning": ".errors",
    "Backend": ".backend",
    "BackendFailedError": ".errors",
    "BackendInfo": ".backend",
    "BackendNotFoundError": ".errors",
    "BackendNotInstalledError": ".errors",
    "BudgetError": ".errors",
    "Comparative": ".piping.status",
    "Comparison": ".results.comparison",
    "Completeness": ".piping.status",
    "CostFormulaError": ".errors",
    "DataLoader": ".inputs",
    "DependencyCycleError": ".errors",
    "Device": ".backend",
    "DeviceNotAvailableError": ".errors",
    "ExternalProfilerFunction": ".piping.function",
    "Failure": ".piping.status",
    "ForwardPass": ".inputs",
    "IncompleteStatusError": ".errors",
    "InputError": ".errors",
    "InvalidTraceError": ".errors",
    "JointFunction": ".piping.function",
    "LoadedModel": ".plugging.extension",
    "LoaderInfo": ".plugging.extension",
    "Measurement": ".times.measurement",
    "Metric": ".piping.status",
    "MissingArgumentError": ".errors",
    "ModelChangedWarning": ".errors",
    "ModelFailedError": ".errors",
    "ModelInputPattern": ".inputs",
    "ModelInputs": ".inputs",
    "ModelTrace": ".trace.records",
    "NotOfferedError": ".errors",
    "Noted": ".piping.status",
    "Partial": ".piping.status",
    "PluginFailedError": ".errors",
    "PluginWarning": ".errors",
    "Profiler": ".profiler",
    "ProfilerBusyError": ".errors",
    "ProfilerFunction": ".piping.function",
    "ProfilerKitError": ".errors",
    "ProfilerKitWarning": ".errors",
    "Ratio": ".times.measurement",
    "RegistrationConflictError": ".errors",
    "RegistrationWarning": ".errors",
    "RendererInfo": ".plugging.extension",
    "Report": ".results.report",
    "ReportFileError": ".errors",
    "Run": ".times.run",
    "RunOptions": ".backend",
    "Scale": ".piping.quantity",
    "StatusKey": ".piping.status",
    "TensorSpec": ".inputs",
    "TracingError": ".errors",
    "Unavailable": ".piping.status",
    "UnknownStatusError": ".errors",
    "WithoutValuesError": ".errors",
    "compare": ".api",
    "hookimpl": ".hookspecs",
    "isolated": ".isolation",
    "load": ".results.saving",
    "metric": ".piping.plain_metric",
    "profile": ".api",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
