"""The metrics as a plugin, offered through the same hooks as the metrics of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit import hookimpl

if TYPE_CHECKING:
    from profilerkit import Backend, ProfilerFunction, StatusKey


@hookimpl
def profilerkit_profiler_functions(backend: Backend) -> list[ProfilerFunction]:
    """Offer the metrics that need nothing but a model and inputs, for every backend."""
    from .discovery import default_functions

    return default_functions()


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Return every status key of this package."""
    from .discovery import status_keys

    return status_keys()
