"""Energy as a plugin: its metrics, for the profilers of every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit import hookimpl

if TYPE_CHECKING:
    from profilerkit import ProfilerFunction, StatusKey


@hookimpl
def profilerkit_profiler_functions() -> list[ProfilerFunction]:
    """Return the function that measures energy, which is computed only if it is requested by name."""
    from .energy import ComputeEnergy

    return [ComputeEnergy()]


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Return the metrics of energy."""
    from .keys import KEYS

    return list(KEYS)
