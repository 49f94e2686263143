"""Pages and figures as a plugin."""

from __future__ import annotations

from profilerkit import FigureInfo, RendererInfo, hookimpl
from profilerkit.hooks.infos import import_later


@hookimpl
def profilerkit_renderers() -> list[RendererInfo]:
    """Return the page of HTML, the piece of it for notebooks, and figures."""
    return [
        RendererInfo(
            "html", import_later("profilerkit_pages.html:render"), "one page for a browser, with tables and charts"
        ),
        RendererInfo("notebook", import_later("profilerkit_pages.html:fragment"), "HTML for a notebook", is_text=False),
        RendererInfo("figure", import_later("profilerkit_pages.figures:draw"), "figures of matplotlib", is_text=False),
    ]


@hookimpl
def profilerkit_figures() -> list[FigureInfo]:
    """Return the kinds of figures, each a function in the module of its name in `profilerkit_pages.figures`."""
    descriptions = {
        "layer_bars": "layers or types that cost most",
        "icicle": "the layers as nested boxes",
        "latency": "the distribution of times",
        "batch_sweep": "time and throughput by batch size",
        "memory_timeline": "memory over a pass",
        "roofline": "FLOP/s by arithmetic intensity",
    }
    return [
        FigureInfo(name, import_later(f"profilerkit_pages.figures.{name}:{name}"), text)
        for name, text in descriptions.items()
    ]
