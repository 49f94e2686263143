"""profilerkit: what a neural network costs, measured with one set of definitions in every framework.

>>> import profilerkit
>>> profilerkit.Comparative.parse("diff").name
'DIFF'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from .api import compare, profile
    from .backend import Backend, BackendInfo, Device
    from .comparison import Comparison
    from .data import DataLoader, ForwardPass, ModelInputPattern, ModelInputs, TensorSpec
    from .errors import (
        ArgumentError,
        ArgumentWarning,
        BackendNotFoundError,
        BackendNotInstalledError,
        BudgetError,
        CostFormulaError,
        DependencyCycleError,
        DeviceNotAvailableError,
        IncompleteStatusError,
        InputError,
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
    from .extension import LoadedModel, LoaderInfo, RendererInfo
    from .function import ExternalProfilerFunction, JointFunction, ProfilerFunction
    from .hookspecs import hookimpl
    from .isolation import isolated
    from .measurement import Measurement, Ratio
    from .profiler import Profiler
    from .quantity import Scale
    from .report import Report
    from .saved import load
    from .status import Comparative, Completeness, Failure, Metric, Noted, Partial, StatusKey, Unavailable
    from .trace import ModelTrace

__all__ = [
    "ArgumentError",
    "ArgumentWarning",
    "Backend",
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
    "profile",
]

#: Where each name comes from. A test holds this, the imports above and `__all__` together.
_MODULES = {
    "ArgumentError": ".errors",
    "ArgumentWarning": ".errors",
    "Backend": ".backend",
    "BackendInfo": ".backend",
    "BackendNotFoundError": ".errors",
    "BackendNotInstalledError": ".errors",
    "BudgetError": ".errors",
    "Comparative": ".status",
    "Comparison": ".comparison",
    "Completeness": ".status",
    "CostFormulaError": ".errors",
    "DataLoader": ".data",
    "DependencyCycleError": ".errors",
    "Device": ".backend",
    "DeviceNotAvailableError": ".errors",
    "ExternalProfilerFunction": ".function",
    "Failure": ".status",
    "ForwardPass": ".data",
    "IncompleteStatusError": ".errors",
    "InputError": ".errors",
    "JointFunction": ".function",
    "LoadedModel": ".extension",
    "LoaderInfo": ".extension",
    "Measurement": ".measurement",
    "Metric": ".status",
    "MissingArgumentError": ".errors",
    "ModelChangedWarning": ".errors",
    "ModelFailedError": ".errors",
    "ModelInputPattern": ".data",
    "ModelInputs": ".data",
    "ModelTrace": ".trace",
    "NotOfferedError": ".errors",
    "Noted": ".status",
    "Partial": ".status",
    "PluginFailedError": ".errors",
    "PluginWarning": ".errors",
    "Profiler": ".profiler",
    "ProfilerBusyError": ".errors",
    "ProfilerFunction": ".function",
    "ProfilerKitError": ".errors",
    "ProfilerKitWarning": ".errors",
    "Ratio": ".measurement",
    "RegistrationConflictError": ".errors",
    "RegistrationWarning": ".errors",
    "RendererInfo": ".extension",
    "Report": ".report",
    "ReportFileError": ".errors",
    "Scale": ".quantity",
    "StatusKey": ".status",
    "TensorSpec": ".data",
    "TracingError": ".errors",
    "Unavailable": ".status",
    "UnknownStatusError": ".errors",
    "WithoutValuesError": ".errors",
    "compare": ".api",
    "hookimpl": ".hookspecs",
    "isolated": ".isolation",
    "load": ".saved",
    "profile": ".api",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
