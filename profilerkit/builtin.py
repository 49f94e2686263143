"""What the core itself offers, as a plugin: it comes through the same hooks as anyone's."""

from __future__ import annotations

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
    """Offer the console table and JSON."""
    return [
        RendererInfo("console", _console, "a table for people"),
        RendererInfo("json", _json, "all that is known, for other programs; values in base units"),
    ]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer models in modules and in files."""
    return [
        LoaderInfo("module", is_in_module, load_from_module, "package.module:name"),
        LoaderInfo("file", is_in_file, load_from_file, "path/to/file.py:name"),
    ]


def _console() -> Renderer:
    from .render.console import render

    return render


def _json() -> Renderer:
    from .render.json import render

    return render
