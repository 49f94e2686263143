"""``profilerkit show REPORT``."""

from __future__ import annotations

from typing import Any

import click

from .loading import load_saved
from .options import output_options, pick
from .output import Display

__all__ = ["command"]


@click.command("show")
@click.argument("report")
@output_options
def command(report: str, **options: Any) -> None:
    """Print a saved report or comparison, in any format; nothing is measured.

    REPORT is a file that --output report.json wrote, or Report.save().
    """
    pick(Display, options).emit(load_saved(report))
