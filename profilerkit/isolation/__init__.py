"""Profiling in a separate process: with limits, and with a report whatever happens to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..process.lazy import lazy_names

if TYPE_CHECKING:
    from .api import isolated, isolated_comparison, run_jobs
    from .job import Job
    from .limits import Limits, parse_memory, parse_timeout

__all__ = ["Job", "Limits", "isolated", "isolated_comparison", "parse_memory", "parse_timeout", "run_jobs"]

_MODULES = {
    "Job": ".job",
    "Limits": ".limits",
    "isolated": ".api",
    "isolated_comparison": ".api",
    "parse_memory": ".limits",
    "parse_timeout": ".limits",
    "run_jobs": ".api",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
