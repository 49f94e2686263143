"""``profilerkit compare REFERENCE OTHER...``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .measuring import Asked, compared, end_with_failures
from .options import input_options, measuring_options, output_options, strict_option
from .output import emit

__all__ = ["command"]


@click.command("compare")
@click.argument("reference")
@click.argument("others", nargs=-1, required=True, metavar="OTHER...")
@input_options
@measuring_options
@output_options
@strict_option
def command(
    reference: str,
    others: tuple[str, ...],
    layers: bool,
    depth: int | None,
    top: int | None,
    form: str,
    output: tuple[Path, ...],
    **how: Any,
) -> None:
    """Profile models side by side; times are measured in turn.

    REFERENCE and each OTHER is a MODEL as 'profilerkit profile' takes it, or a report that was saved as JSON.
    """
    asked = Asked(**how)
    comparison, profilers = compared((reference, *others), asked)
    emit(comparison, form, output, asked.quiet, details=layers, depth=depth, top=top)
    for report in comparison.reports:
        end_with_failures(report, next(iter(profilers), None))
