"""Figures of reports and comparisons, by matplotlib: one kind, one file. Needs the ``plot`` extra.

Each function returns a ``matplotlib.figure.Figure`` to save or show. No window opens, and neither pyplot nor any
setting of matplotlib is touched; the settings that you made hold for these figures too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..arguments.checks import text
from ..arguments.names import argument_hint
from ..errors import ArgumentError, by_likeness
from .batch_sweep import batch_sweep
from .ceilings import Ceilings
from .icicle import icicle
from .latency import latency
from .layer_bars import layer_bars
from .memory_timeline import memory_timeline
from .roofline import roofline

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = [
    "KINDS",
    "Ceilings",
    "batch_sweep",
    "draw",
    "icicle",
    "latency",
    "layer_bars",
    "memory_timeline",
    "roofline",
]

#: Every kind of figure by its name, which is that of its function.
KINDS: dict[str, Callable[..., Any]] = {
    figure.__name__: figure for figure in (layer_bars, icicle, latency, batch_sweep, memory_timeline, roofline)
}


def draw(result: Report | Comparison, kind: str, **options: Any) -> Any:
    """Return a figure of one of the `KINDS`, a ``matplotlib.figure.Figure``.

    Args:
        result: A report, or a comparison for the kinds that take one.
        kind: The name of the kind: "layer_bars", "icicle", "latency", "batch_sweep", "memory_timeline" or "roofline".
        **options: The options of the function of that name.

    Raises `ArgumentError` for an unknown kind or option, `ValueError` if the report lacks what the figure shows, and
    `ImportError` if matplotlib is missing.
    """
    if text("the name of a kind of figure, such as 'icicle'")("kind", kind) not in KINDS:
        raise ArgumentError(f"no figure {kind!r}; there are, nearest first: {', '.join(by_likeness(kind, KINDS))}")
    parameters = inspect.signature(KINDS[kind]).parameters
    for name in sorted(options.keys() - parameters.keys()):
        raise ArgumentError(
            f"figure {kind!r} takes no option {name!r}; {argument_hint(name, list(parameters)[1:], {})}"
        )
    return KINDS[kind](result, **options)
