"""profilerkit: what a neural network costs, measured with one set of definitions in every framework.

>>> import profilerkit
>>> profilerkit.Comparative.parse("diff").name
'DIFF'
"""

from __future__ import annotations

from .process.lazy import install_lazy_names, module_of_each

#: Where each public name comes from. ``docs/make_tables.py`` writes them for type checkers, ``__init__.pyi``.
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
        "profilerkit_predict.meshes.execution_traces": "write_execution_traces",
        "profilerkit_predict.meshes.fitting": "find_mesh",
        "profilerkit_predict.meshes.step_timeline": "write_step_timeline",
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

#: Public names that frameworks and Python also have: ``from profilerkit import *`` leaves them out.
_ALSO_ELSEWHERE = {"DataLoader", "Device", "Metric", "Partial", "RunOptions", "TensorSpec", "join", "load"}
__all__ = [name for name in sorted(_MODULES) if name not in _ALSO_ELSEWHERE]

install_lazy_names(__name__, _MODULES)
