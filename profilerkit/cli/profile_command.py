"""``profilerkit profile MODEL``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import DeviceFileError, DeviceNotKnownError, StoreError
from . import MODEL_FAILED, USAGE, fail
from .completing import devices, models
from .measuring import Request, end_with_failures, profiled
from .options import input_options, isolation_options, measuring_options, output_options, picked, strict_option
from .output import Display

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["command"]


@click.command("profile")
@click.argument("model", shell_complete=models)
@input_options
@measuring_options
@isolation_options
@output_options
@strict_option
@click.option(
    "--on",
    metavar="DEVICE",
    shell_complete=devices,
    help="Also predict the time on this device: a name of 'devices', or a file.",
)
@click.option("--store", metavar="URL", help="Also save the report in this store of audits: a path or URL.")
def command(model: str, store: str | None, **options: Any) -> None:
    """Profile a model and print its report.

    MODEL names the model: package.module:name, path/to/file.py:name, a saved file, or a model of a library, such as
    torchvision:resnet18. 'profilerkit list' shows all model loaders.
    """
    request, display = picked(Request, options), picked(Display, options)
    if request.on is not None:
        _require_device(request.on)
    report, profiler = profiled(model, request)
    display.emit(report)
    if store is not None:
        _put(store, report, model)
    end_with_failures(report, profiler)


def _put(store: str, report: Report, spec: str) -> None:
    """Put a report into a store; the report was printed before, so that nothing is lost if that fails."""
    try:
        from ..audits.adding import add_report
    except ImportError as error:
        fail(f"stores need packages that are not installed ({error}): pip install 'profilerkit[audit]'", USAGE, error)
    try:
        add_report(store, report, spec)
    except StoreError as error:
        fail(str(error), MODEL_FAILED, error)


def _require_device(name: str) -> None:
    """Check a device: now, and not when all is measured."""
    from ..devices import device

    try:
        device(name)
    except (DeviceNotKnownError, DeviceFileError) as error:
        raise click.BadParameter(str(error), param_hint="--on") from error
