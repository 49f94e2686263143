"""Every hook of profilerkit on one page.

A plugin is a module, named by an entry point of the group ``profilerkit``, with functions marked
`profilerkit.hookimpl`. What profilerkit itself offers comes through the same hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from .backend import Backend, BackendInfo
    from .piping.function import ProfilerFunction
    from .piping.status import StatusKey
    from .plugging.extension import LoaderInfo, RendererInfo
    from .results.comparison import Comparison
    from .results.report import Report

hookspec = pluggy.HookspecMarker("profilerkit")
hookimpl = pluggy.HookimplMarker("profilerkit")


@hookspec
def profilerkit_backends() -> Iterable[BackendInfo]:
    """Name the backends this plugin offers, without importing their frameworks."""
    raise NotImplementedError


@hookspec
def profilerkit_profiler_functions(backend: Backend) -> Iterable[ProfilerFunction]:
    """Return the functions that a profiler of this backend should have by default."""
    raise NotImplementedError


@hookspec
def profilerkit_status_keys() -> Iterable[type[StatusKey]]:
    """Name the status keys that are this plugin's own, whichever backend computes them."""
    raise NotImplementedError


@hookspec
def profilerkit_op_costs(backend: Backend) -> Mapping[Any, Callable[..., Any]]:
    """Return cost formulas by operator or layer class; asked for once, when the backend is first used."""
    raise NotImplementedError


@hookspec
def profilerkit_renderers() -> Iterable[RendererInfo]:
    """Name the forms this plugin can give a report, without importing what draws them."""
    raise NotImplementedError


@hookspec
def profilerkit_model_loaders() -> Iterable[LoaderInfo]:
    """Name the ways this plugin can find the model that the command line is given as text."""
    raise NotImplementedError


@hookspec(historic=True)
def profilerkit_configure(manager: pluggy.PluginManager) -> None:
    """Set something up; called once: when all plugins are loaded, or when the plugin is registered later."""
    raise NotImplementedError


@hookspec
def profilerkit_report_created(report: Report | Comparison) -> None:
    """Take note of a result, to store it: called once with each that is handed to the user."""
    raise NotImplementedError
