"""profilerkit: what a neural network costs, measured with one set of definitions in every framework.

>>> import profilerkit
>>> profilerkit.Comparative.parse("diff").name
'DIFF'
"""

from __future__ import annotations

from .api import compare, profile
from .backend import Backend, Device
from .data import DataLoader, ForwardPass, ModelInputPattern, ModelInputs, TensorSpec
from .errors import (
    ArgumentWarning,
    BackendNotFoundError,
    BackendNotInstalledError,
    CostFormulaError,
    DependencyCycleError,
    DeviceNotAvailableError,
    IncompleteStatusError,
    InputError,
    MissingArgumentError,
    ModelChangedWarning,
    ModelFailedError,
    PluginWarning,
    ProfilerKitError,
    ProfilerKitWarning,
    RegistrationConflictError,
    RegistrationWarning,
    UnknownStatusError,
    WithoutValuesError,
)
from .function import ExternalProfilerFunction, JointFunction, ProfilerFunction
from .hookspecs import hookimpl
from .measurement import Measurement, Ratio
from .plugins import BackendInfo
from .profiler import Profiler
from .quantity import Scale
from .report import Comparison, Report
from .status import Comparative, Completeness, Failure, Metric, Partial, StatusKey, Unavailable
from .trace import ModelTrace

__all__ = [
    "ArgumentWarning",
    "Backend",
    "BackendInfo",
    "BackendNotFoundError",
    "BackendNotInstalledError",
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
    "Measurement",
    "Metric",
    "MissingArgumentError",
    "ModelChangedWarning",
    "ModelFailedError",
    "ModelInputPattern",
    "ModelInputs",
    "ModelTrace",
    "Partial",
    "PluginWarning",
    "Profiler",
    "ProfilerFunction",
    "ProfilerKitError",
    "ProfilerKitWarning",
    "Ratio",
    "RegistrationConflictError",
    "RegistrationWarning",
    "Report",
    "Scale",
    "StatusKey",
    "TensorSpec",
    "Unavailable",
    "UnknownStatusError",
    "WithoutValuesError",
    "compare",
    "hookimpl",
    "profile",
]
