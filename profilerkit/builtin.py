"""What the core itself offers, as a plugin: it comes through the same hooks as anyone's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from .extension import LoaderInfo, Renderer, RendererInfo
from .hookspecs import hookimpl
from .intrinsic import Inputs
from .loaders import is_in_file, is_in_module, load_from_file, load_from_module
from .status import StatusKey
from .trace import Trace


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Name what every profiler computes on demand."""
    return [Inputs, Trace]


@hookimpl
def profilerkit_renderers() -> list[RendererInfo]:
    """Offer the forms that reports can be given, each in a module of `profilerkit.render`."""
    return [
        RendererInfo("console", _module("console"), "a table for people"),
        RendererInfo("json", _module("json"), "all that is known, for other programs and for 'show'"),
        RendererInfo("markdown", _module("markdown"), "tables for a pull request"),
        RendererInfo("html", _module("html"), "one page for a browser, with tables and charts"),
        RendererInfo("latex", _module("latex"), "booktabs tables for a paper"),
        RendererInfo("csv", _module("csv"), "a row for each metric, in base units"),
        RendererInfo("layers-csv", _module("layers_csv"), "a row for each layer, in base units"),
        RendererInfo("tree", _module("tree"), "the layers as a tree, with their shares"),
    ]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer models in modules and in files."""
    return [
        LoaderInfo("module", is_in_module, load_from_module, "package.module:name"),
        LoaderInfo("file", is_in_file, load_from_file, "path/to/file.py:name"),
    ]


def _module(name: str) -> Callable[[], Renderer]:
    """Return what imports a form's module and hands over its renderer."""

    def load() -> Renderer:
        draw: Renderer = import_module(f".render.{name}", __package__).render
        return draw

    return load
