"""What profilerkit finds: the module that the entry point in setup.cfg names."""

from __future__ import annotations

from profilerkit import ProfilerFunction, StatusKey, hookimpl

from . import AccuracyPerJoule, ComputeAccuracyPerJoule, ComputeEnergy, EnergyPerInference


@hookimpl
def profilerkit_profiler_functions() -> list[ProfilerFunction]:
    """Offer both metrics to the profilers of every backend."""
    return [ComputeEnergy(), ComputeAccuracyPerJoule()]


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Name both as this package's own: another plugin that computes one of them is an error that names both."""
    return [EnergyPerInference, AccuracyPerJoule]
