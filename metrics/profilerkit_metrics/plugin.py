"""The metrics as a plugin: they come through the same hooks as anyone's."""

from __future__ import annotations

from profilerkit import Backend, ProfilerFunction, StatusKey, hookimpl

from .discovery import default_functions, status_keys


@hookimpl
def profilerkit_profiler_functions(backend: Backend) -> list[ProfilerFunction]:
    """Offer the metrics that need nothing but a model and inputs, for every backend."""
    return default_functions()


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Name every status key of this package whose name is its own."""
    return status_keys()
