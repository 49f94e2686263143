"""``profilerkit show REPORT``."""

from __future__ import annotations

from pathlib import Path

import click

from .measuring import saved
from .options import output_options
from .output import emit

__all__ = ["command"]


@click.command("show")
@click.argument("report")
@output_options
def command(
    report: str,
    layers: bool,
    depth: int | None,
    top: int | None,
    form: str,
    output: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Show a saved report or comparison again, in any form; nothing is measured.

    REPORT is a file that --output report.json wrote, or Report.save().
    """
    emit(saved(report), form, output, quiet, details=layers, depth=depth, top=top)
