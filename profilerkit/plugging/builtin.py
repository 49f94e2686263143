"""What the core itself offers, as a plugin: it comes through the same hooks as anyone's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ..hookspecs import hookimpl
from ..piping.intrinsic import Inputs, NonzeroTrace, Trace, TrainingTrace
from ..piping.options import RunOptionsKey, SamplingKey
from ..piping.status import StatusKey
from .extension import LoaderInfo, Renderer, RendererInfo
from .loaders import is_in_file, is_in_module, load_from_file, load_from_module


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Name what every profiler computes on demand."""
    return [Inputs, Trace, TrainingTrace, NonzeroTrace, RunOptionsKey, SamplingKey]


@hookimpl
def profilerkit_renderers() -> list[RendererInfo]:
    """Offer the forms that reports can be given, each in a module of `profilerkit.render`."""
    return [
        RendererInfo("console", _found("render", "render.console"), "a table for people"),
        RendererInfo("json", _found("render", "render.json"), "all that is known, for other programs and for 'show'"),
        RendererInfo("markdown", _found("render", "render.markdown"), "tables for a pull request"),
        RendererInfo("html", _found("render", "render.html"), "one page for a browser, with tables and charts"),
        RendererInfo("latex", _found("render", "render.latex"), "booktabs tables for a paper"),
        RendererInfo("csv", _found("render", "render.csv"), "a row for each metric, in base units"),
        RendererInfo("layers-csv", _found("render", "render.layers_csv"), "a row for each layer, in base units"),
        RendererInfo("tree", _found("render", "render.tree"), "the layers as a tree, with their shares"),
        RendererInfo("values", _found("to_dict", "results.saving"), "values that JSON can hold", is_text=False),
        RendererInfo("loaded", _found("load_as", "results.saving"), "a result read from a file", is_text=False),
        RendererInfo("figure", _found("draw", "figures"), "a figure of matplotlib", is_text=False),
        RendererInfo("rich", _found("result_table", "render.console"), "a table that rich prints", is_text=False),
        RendererInfo("notebook", _found("fragment", "render.html"), "a piece of HTML for a notebook", is_text=False),
    ]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer models in modules and in files."""
    return [
        LoaderInfo("module", is_in_module, load_from_module, "package.module:name"),
        LoaderInfo("file", is_in_file, load_from_file, "path/to/file.py:name"),
    ]


def _found(name: str, module: str) -> Callable[[], Renderer]:
    """Return what imports a module of profilerkit and hands over a renderer in it."""

    def load() -> Renderer:
        draw: Renderer = getattr(import_module(f"profilerkit.{module}"), name)
        return draw

    return load
