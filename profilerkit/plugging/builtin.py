"""The plugin of the core: its renderers, loaders and status keys are offered through the same hooks as any plugin's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..hookspecs import hookimpl
from ..piping.intrinsic import Inputs, NonzeroTrace, Trace, TrainingTrace
from ..piping.options import RunOptionsKey, SamplingKey
from ..piping.status import StatusKey
from .extension import CommandInfo, EngineInfo, FigureInfo, LoaderInfo, RendererInfo
from .loaders import is_in_file, is_in_module, load_from_file, load_from_module

if TYPE_CHECKING:
    from ..devices.info import DeviceInfo


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Return the status keys that every profiler computes on demand."""
    return [Inputs, Trace, TrainingTrace, NonzeroTrace, RunOptionsKey, SamplingKey]


@hookimpl
def profilerkit_renderers() -> list[RendererInfo]:
    """Return the output forms of reports, each in a module of `profilerkit.render`."""
    return [
        RendererInfo("console", _lazy("render", "render.console"), "a table for people"),
        RendererInfo("json", _lazy("render", "render.json"), "all results, for other programs and for 'show'"),
        RendererInfo("markdown", _lazy("render", "render.markdown"), "tables for a pull request"),
        RendererInfo("html", _lazy("render", "render.html"), "one page for a browser, with tables and charts"),
        RendererInfo("latex", _lazy("render", "render.latex"), "booktabs tables for a paper"),
        RendererInfo("csv", _lazy("render", "render.csv"), "a row for each metric, in base units"),
        RendererInfo("layers-csv", _lazy("render", "render.layers_csv"), "a row for each layer, in base units"),
        RendererInfo("speedscope", _lazy("render", "render.speedscope"), "times of layers for speedscope"),
        RendererInfo("chrome-trace", _lazy("render", "render.chrome_trace"), "times of layers for Perfetto"),
        RendererInfo("tree", _lazy("render", "render.tree"), "the layers as a tree, with their shares"),
        RendererInfo("depths", _lazy("by_depth", "render.aggregates"), "the costliest types of layers at each depth"),
        RendererInfo("operators", _lazy("by_operator", "render.aggregates"), "operators summed by name"),
        RendererInfo("values", _lazy("to_dict", "results.saving"), "values that JSON can hold", is_text=False),
        RendererInfo("loaded", _lazy("load_as", "results.saving"), "a result read from a file", is_text=False),
        RendererInfo("figure", _lazy("draw", "figures"), "a figure of matplotlib", is_text=False),
        RendererInfo("rich", _lazy("result_table", "render.console"), "a table that rich prints", is_text=False),
        RendererInfo("notebook", _lazy("fragment", "render.html"), "a piece of HTML for a notebook", is_text=False),
    ]


@hookimpl
def profilerkit_figures() -> list[FigureInfo]:
    """Return the kinds of figures, each a function in the module of its name in `profilerkit.figures`."""
    descriptions = {
        "layer_bars": "layers or types that cost most",
        "icicle": "the layers as nested boxes",
        "latency": "the distribution of times",
        "batch_sweep": "time and throughput by batch size",
        "memory_timeline": "memory over a pass",
        "roofline": "FLOP/s by arithmetic intensity",
    }
    return [FigureInfo(name, _lazy(name, f"figures.{name}"), text) for name, text in descriptions.items()]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Return the loaders of models in modules and in Python files."""
    return [
        LoaderInfo("module", is_in_module, load_from_module, "package.module:name"),
        LoaderInfo("file", is_in_file, load_from_file, "path/to/file.py:name"),
    ]


@hookimpl
def profilerkit_devices() -> list[DeviceInfo]:
    """Return the devices of `profilerkit.devices`, each in a TOML file."""
    # By name: that room finds its devices through plugins, so this one imports nothing of it.
    packaged: Callable[[], list[DeviceInfo]] = import_module("profilerkit.devices.catalog").packaged
    return packaged()


@hookimpl
def profilerkit_engines() -> list[EngineInfo]:
    """Return the engines of audits: one machine, and a cluster."""
    return [
        EngineInfo("local", _lazy("LocalEngine", "audits.local_engine"), "processes of this machine"),
        EngineInfo("ray", _lazy("RayEngine", "audits.ray_engine"), "a cluster of Ray", "profilerkit[ray]"),
    ]


@hookimpl
def profilerkit_commands() -> list[CommandInfo]:
    """Return the commands of `profilerkit.cli`."""
    commands: list[CommandInfo] = import_module("profilerkit.cli.commands").COMMANDS
    return commands


def _lazy(name: str, module: str) -> Callable[[], Any]:
    """Return a function that imports a module of profilerkit and returns a renderer or an engine in it."""

    def load() -> Any:
        return getattr(import_module(f"profilerkit.{module}"), name)

    return load
