"""Profiling in a separate process: with limits, and with a report whatever happens to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..process.lazy import install_lazy_names, module_of_each

if TYPE_CHECKING:
    from ..job import Job
    from .api import isolated, isolated_comparison, run_jobs
    from .limits import Limits, parse_memory, parse_timeout

__all__ = ["Job", "Limits", "isolated", "isolated_comparison", "parse_memory", "parse_timeout", "run_jobs"]

_MODULES = module_of_each(
    {".api": "isolated isolated_comparison run_jobs", "..job": "Job", ".limits": "Limits parse_memory parse_timeout"}
)

install_lazy_names(__name__, _MODULES)
