"""Every hook of profilerkit on one page.

A plugin is a module, named by an entry point of the group ``profilerkit``, with functions marked
`profilerkit.hookimpl`. profilerkit's own objects are offered through the same hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from .backend import Backend
    from .devices.info import DeviceInfo
    from .hooks.infos import (
        BackendInfo,
        CommandInfo,
        EngineInfo,
        FigureInfo,
        LoaderInfo,
        OptionInfo,
        PlacementInfo,
        RendererInfo,
    )
    from .piping.function import ProfilerFunction
    from .piping.status import StatusKey
    from .protocols import Capability
    from .results.comparison import Comparison
    from .results.report import Report

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker("profilerkit")
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("profilerkit")


@hookspec
def profilerkit_backends() -> Iterable[BackendInfo]:
    """Return the backends that this plugin offers, without importing their frameworks."""
    raise NotImplementedError


@hookspec
def profilerkit_profiler_functions(backend: Backend) -> Iterable[ProfilerFunction]:
    """Return the functions that a profiler of this backend should have by default."""
    raise NotImplementedError


@hookspec
def profilerkit_status_keys() -> Iterable[type[StatusKey]]:
    """Return the status keys that this plugin defines, whichever backend computes them."""
    raise NotImplementedError


@hookspec
def profilerkit_op_costs(backend: Backend) -> Mapping[Any, Callable[..., Any]]:
    """Return cost formulas by operator or layer class; called at the first use of a backend."""
    raise NotImplementedError


@hookspec
def profilerkit_renderers() -> Iterable[RendererInfo]:
    """Return the output forms of reports that this plugin offers, without importing their renderers."""
    raise NotImplementedError


@hookspec
def profilerkit_figures() -> Iterable[FigureInfo]:
    """Return the kinds of figures that this plugin draws, without importing the code that draws them."""
    raise NotImplementedError


@hookspec
def profilerkit_capabilities(backend: Backend) -> Iterable[object]:
    """Return objects with the methods of capabilities (`profilerkit.protocols`) that this plugin adds to a backend."""
    raise NotImplementedError


@hookspec
def profilerkit_protocols() -> Iterable[Capability]:
    """Return the capabilities that this plugin asks backends for, which ``profilerkit doctor`` lists."""
    raise NotImplementedError


@hookspec
def profilerkit_model_loaders() -> Iterable[LoaderInfo]:
    """Return the ways in which this plugin can load a model that a text on the command line names."""
    raise NotImplementedError


@hookspec
def profilerkit_devices() -> Iterable[DeviceInfo]:
    """Return the devices that this plugin describes, for predictions and shares of a peak."""
    raise NotImplementedError


@hookspec
def profilerkit_engines() -> Iterable[EngineInfo]:
    """Return the engines that this plugin offers for audits, without importing the packages that they need."""
    raise NotImplementedError


@hookspec
def profilerkit_commands() -> Iterable[CommandInfo]:
    """Return the commands that this plugin adds to ``profilerkit``, without importing them."""
    raise NotImplementedError


@hookspec
def profilerkit_options() -> Iterable[OptionInfo]:
    """Return the options that this plugin adds to ``profile``, without importing them."""
    raise NotImplementedError


@hookspec
def profilerkit_placements() -> Iterable[PlacementInfo]:
    """Return arguments of ``profile`` by which something else is profiled in place of a model, such as one rank."""
    raise NotImplementedError


@hookspec(historic=True)
def profilerkit_configure(manager: pluggy.PluginManager) -> None:
    """Set the plugin up; called once: when all plugins are loaded, or when the plugin is registered later."""
    raise NotImplementedError


@hookspec
def profilerkit_report_created(report: Report | Comparison) -> None:
    """Receive a result, for example to store it; called once for each result that the user gets."""
    raise NotImplementedError
