"""``profilerkit profile MODEL``."""

from __future__ import annotations

from typing import Any

import click

from .measuring import Request, end_with_failures, profiled
from .options import input_options, isolation_options, measuring_options, output_options, picked, strict_option
from .output import Display

__all__ = ["command"]


@click.command("profile")
@click.argument("model")
@input_options
@measuring_options
@isolation_options
@output_options
@strict_option
def command(model: str, **options: Any) -> None:
    """Profile a model and print its report.

    MODEL names the model: package.module:name, path/to/file.py:name, a saved file, or a model of a library, such as
    torchvision:resnet18. 'profilerkit list' shows all model loaders.
    """
    request, display = picked(Request, options), picked(Display, options)
    report, profiler = profiled(model, request)
    display.emit(report)
    end_with_failures(report, profiler)
