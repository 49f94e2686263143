"""Figures of reports and comparisons, by matplotlib: one kind, one file. Needs the ``plot`` extra.

Each function returns a ``matplotlib.figure.Figure`` to save or show. No window opens, and neither pyplot nor any
setting of matplotlib is touched; the settings that you made hold for these figures too.
"""

from __future__ import annotations

from typing import Any

from profilerkit.arguments.checks import Check, positive, several, text
from profilerkit.arguments.names import argument_hint
from profilerkit.errors import ArgumentError, by_likeness
from profilerkit.hooks.infos import FigureInfo
from profilerkit.hooks.manager import find_offer, list_infos, load_offer
from profilerkit.hooks.renderers import read_options
from profilerkit.process.containment import contained
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import Report

from .batch_sweep import batch_sweep
from .ceilings import Ceilings
from .icicle import icicle
from .latency import latency
from .layer_bars import layer_bars
from .memory_timeline import memory_timeline
from .roofline import roofline

__all__ = ["Ceilings", "batch_sweep", "draw", "icicle", "kinds", "latency", "layer_bars", "memory_timeline", "roofline"]


def kinds() -> list[str]:
    """Return the names of all kinds of figures, with the kinds of plugins."""
    return list(dict.fromkeys(offer.item.name for offer in list_infos(FigureInfo)))


def _read_size(value: Any) -> tuple[float, float]:
    width, height = map(positive("8").read, several(value))
    return width, height


_SIZE = Check("the width and the height in inches, such as (8, 5)", _read_size)
#: The options to use instead of options of other profilers' figures.
_INSTEAD = {
    "time_flag": "name the column: by='forward_seconds'",
    "output_path": "save the figure: report.plot(...).savefig(path)",
    "ax": "a figure has axes of its own: fig, ax = report.plot(...)",
}


def draw(result: Report | Comparison, kind: str, *, figsize: tuple[float, float] | None = None, **options: Any) -> Any:
    """Return a figure of a report or comparison, a ``matplotlib.figure.Figure``.

    ``fig, ax = draw(...)`` gives its axes too.

    Args:
        result: A report, or a comparison for the kinds that accept it.
        kind: One of `kinds`: "layer_bars", "icicle", "latency", "batch_sweep", "memory_timeline", "roofline", or one of
            a plugin.
        figsize: The width and the height in inches. Default: the size of the content.
        **options: The options of the function that draws it.

    Raises `ArgumentError` for an unknown kind or option, `ValueError` if the report lacks the values of the figure,
    `ImportError` if matplotlib is missing, and `PluginFailedError` if the figure is of another package and raises.
    """
    offer = find_offer(FigureInfo, text("the name of a kind of figure, such as 'icicle'")("kind", kind))
    if offer is None:
        raise ArgumentError(f"no figure {kind!r}; there are, nearest first: {', '.join(by_likeness(kind, kinds()))}")
    function = load_offer(offer)
    accepted, takes_any = read_options(function)
    unknown = sorted(options.keys() - set(accepted))
    if unknown and not takes_any:
        hint = argument_hint(unknown[0], [*accepted, "figsize"], _INSTEAD)
        raise ArgumentError(f"figure {kind!r} takes no option {unknown[0]!r}; {hint}")
    size = None if figsize is None else _SIZE("figsize", figsize)
    with contained(offer.plugin, f"figure {kind!r}", wrapped=True):
        figure = function(result, **options)
    if size is not None:
        figure.set_size_inches(*size)
    return figure
