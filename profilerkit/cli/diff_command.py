"""``profilerkit diff OLD NEW``."""

from __future__ import annotations

from typing import Any

import click

from .compare_command import show_comparison
from .completions import complete_models
from .measuring import Request
from .options import input_options, isolation_options, measuring_options, output_options, pick, strict_option
from .output import Display

__all__ = ["command"]


@click.command("diff")
@click.argument("old", shell_complete=complete_models)
@click.argument("new", shell_complete=complete_models)
@input_options
@measuring_options
@isolation_options
@output_options
@strict_option
def command(old: str, new: str, **options: Any) -> None:
    """Show what changed between OLD and NEW, metric by metric and layer by layer.

    Each is a report that was saved as JSON, or a MODEL as 'profilerkit profile' takes it.
    """
    request, display = pick(Request, options), pick(Display, options)
    show_comparison((old, new), request, display, changes=not display.layers)
