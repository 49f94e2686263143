"""Sending a report to people: the logger ``profilerkit``, at the level they requested."""

from __future__ import annotations

import sys

from ..hooks.renderers import render
from ..process.clean_output import wants_color
from ..results.comparison import Comparison
from ..results.report import Report

__all__ = ["log"]


def log(shown: Report | Comparison, level: int, short_print: bool) -> None:
    """Log a report as a table at a level of logging.

    Where the program configured no logging, the table goes to standard output at any level, because it was requested.
    """
    import logging  # slow to import, and needed only where something is shown

    logger = logging.getLogger("profilerkit")
    if logger.hasHandlers():
        logger.log(level, "\n%s", shown.to_text(details=not short_print))
    else:
        print(render(shown, details=not short_print, color=wants_color()), file=sys.stdout)
