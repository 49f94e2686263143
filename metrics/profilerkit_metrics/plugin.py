"""The metrics as a plugin, offered through the same hooks as those of other packages."""

from __future__ import annotations

from profilerkit import Backend, ProfilerFunction, StatusKey, hookimpl

from .discovery import default_functions, status_keys


@hookimpl
def profilerkit_profiler_functions(backend: Backend) -> list[ProfilerFunction]:
    """Offer the metrics that need nothing but a model and inputs, for every backend."""
    return default_functions()


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Return every status key of this package."""
    return status_keys()
