"""``profilerkit diff OLD NEW``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .measuring import Asked, compared
from .options import input_options, measuring_options, output_options, strict_option
from .output import emit

__all__ = ["command"]


@click.command("diff")
@click.argument("old")
@click.argument("new")
@input_options
@measuring_options
@output_options
@strict_option
def command(
    old: str,
    new: str,
    layers: bool,
    depth: int | None,
    top: int | None,
    form: str,
    output: tuple[Path, ...],
    **how: Any,
) -> None:
    """Say what changed between OLD and NEW, metric by metric and layer by layer.

    Each is a report that was saved as JSON, or a MODEL as 'profilerkit profile' takes it.
    """
    asked = Asked(**how)
    comparison, _ = compared((old, new), asked)
    emit(comparison, form, output, asked.quiet, details=layers, depth=depth, top=top, changes=not layers)
