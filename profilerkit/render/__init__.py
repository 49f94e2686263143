"""The forms of a report, for people and for programs, one file each; plugins can offer further ones."""

from __future__ import annotations

import sys

from ..hooks.renderers import render, renderer
from ..process.clean_output import wants_color
from ..process.inner_states import keep_random_state
from ..results.comparison import Comparison
from ..results.report import Report
from ..trace.records import LayerTable

__all__ = ["layer_text", "log_result", "render", "renderer"]


def layer_text(layers: LayerTable) -> str:
    """Return the table of a model's layers as text: paths indented by depth, counts with the layers inside included."""
    with keep_random_state():  # rich draws random numbers when it is imported
        from .console import grid_text
        from .layer_grids import layer_grid
    return grid_text(layer_grid(layers))


def log_result(result: Report | Comparison, level: int, short_print: bool) -> None:
    """Log a result as a table by the logger ``profilerkit``, at a level of logging.

    Where the program configured no logging, the table goes to standard output at any level, because it was requested.
    """
    import logging  # slow to import, and needed only where something is shown

    logger = logging.getLogger("profilerkit")
    if logger.hasHandlers():
        logger.log(level, "\n%s", result.to_text(details=not short_print))
    else:
        print(render(result, details=not short_print, color=wants_color()), file=sys.stdout)
