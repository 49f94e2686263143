"""``profilerkit compare REFERENCE OTHER...``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from .completions import complete_models
from .measuring import Request, compare_specs, end_with_failures
from .options import input_options, isolation_options, measuring_options, output_options, pick, strict_option
from .output import Display

__all__ = ["command"]


@click.command("compare")
@click.argument("reference", shell_complete=complete_models)
@click.argument("others", nargs=-1, required=True, metavar="OTHER...", shell_complete=complete_models)
@input_options
@measuring_options
@isolation_options
@output_options
@strict_option
@click.option("--check-outputs", is_flag=True, help="Also run the models on the same inputs and compare their outputs.")
def command(reference: str, others: tuple[str, ...], check_outputs: bool, **options: Any) -> None:
    """Profile models side by side; times are measured in turn.

    REFERENCE and each OTHER is a MODEL as 'profilerkit profile' takes it, or a report that was saved as JSON.
    """
    request, display = pick(Request, options), pick(Display, options)
    if check_outputs:
        if request.is_isolated:
            raise click.UsageError("--check-outputs runs the models in one process; leave out the options of isolation")
        request = replace(request, further={"check_outputs": True})
    comparison, profilers = compare_specs((reference, *others), request)
    display.emit(comparison)
    for report, profiler in zip(comparison.reports, profilers, strict=True):
        end_with_failures(report, profiler)
