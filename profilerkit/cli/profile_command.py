"""``profilerkit profile MODEL``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .measuring import Asked, end_with_failures, profiled
from .options import input_options, measuring_options, output_options, strict_option
from .output import emit

__all__ = ["command"]


@click.command("profile")
@click.argument("model")
@input_options
@measuring_options
@output_options
@strict_option
def command(
    model: str,
    layers: bool,
    depth: int | None,
    top: int | None,
    form: str,
    output: tuple[Path, ...],
    **how: Any,
) -> None:
    """Profile a model and print its report.

    MODEL says where the model is; 'profilerkit list' names the ways: package.module:name, path/to/file.py:name, a saved
    file, or the name of a model in a library.
    """
    asked = Asked(**how)
    report, profiler = profiled(model, asked)
    emit(report, form, output, asked.quiet, details=layers, depth=depth, top=top)
    end_with_failures(report, profiler)
