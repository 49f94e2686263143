"""``profilerkit profile MODEL``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ..errors import DeviceFileError, DeviceNotKnownError
from ..hooks.commands import load_options, read_arguments, use_options
from .completions import complete_devices, complete_models
from .measuring import Request, end_with_failures, profile_spec
from .options import input_options, isolation_options, measuring_options, output_options, pick, strict_option
from .output import Display

__all__ = ["command"]

#: Where a context keeps the options of plugins.
_OPTIONS = f"{__name__}.options"


class _Extended(click.Command):
    """A command with the options that plugins add to it."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        # Asked for again when an error is shown, when --no-plugins no longer holds.
        if _OPTIONS not in ctx.meta:
            ctx.meta[_OPTIONS] = load_options()
        *options, help_option = super().get_params(ctx)
        return [*options, *ctx.meta[_OPTIONS], help_option]


@click.command("profile", cls=_Extended)
@click.argument("model", shell_complete=complete_models)
@input_options
@measuring_options
@isolation_options
@output_options
@strict_option
@click.option(
    "--on",
    metavar="DEVICE",
    shell_complete=complete_devices,
    help="Also predict the time on this device: a name of 'devices', or a file.",
)
def command(model: str, **options: Any) -> None:
    """Profile a model and print its report.

    MODEL names the model: package.module:name, path/to/file.py:name, a saved file, or a model of a library, such as
    torchvision:resnet18. 'profilerkit list' shows all model loaders.
    """
    request = replace(pick(Request, options), further=read_arguments(options))
    display = pick(Display, options)
    if request.on is not None:
        _require_device(request.on)
    measured = profile_spec(model, request)
    display.emit(measured.report)
    use_options(options, measured.report, model)
    end_with_failures([measured])


def _require_device(name: str) -> None:
    """Check a device: now, and not when all is measured."""
    from ..devices import device

    try:
        device(name)
    except (DeviceNotKnownError, DeviceFileError) as error:
        raise click.BadParameter(str(error), param_hint="--on") from error
