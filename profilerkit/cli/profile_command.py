"""``profilerkit profile MODEL``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import IncompleteStatusError, NotOfferedError, ProfilerKitError
from . import INCOMPLETE, MODEL_FAILED, fail

__all__ = ["command"]


def _form(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a form by the renderers that plugins offer: now, and not when all is measured."""
    from ..render import renderer

    if context.resilient_parsing:  # nothing runs: only completions are wanted
        return value
    try:
        renderer(value)
    except NotOfferedError as error:
        raise click.BadParameter(str(error)) from error
    return value


def _forms(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..plugins import offered_renderers

    return [offer.item.name for offer in offered_renderers() if offer.item.name.startswith(incomplete)]


@click.command("profile", help="Profile a model: MODEL is package.module:name or path/to/file.py:name.")
@click.argument("model")
@click.option("--input-shape", multiple=True, metavar="SHAPE", help="1,3,224,224 or ids=1,128:int64; batch first.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Samples in one forward pass.")
@click.option("--device", help="cpu, gpu, or a string of the framework such as cuda:1.")
@click.option("--metric", multiple=True, help="Only this metric; may be given several times.")
@click.option("--leave-out", multiple=True, help="Not this status key of any plugin's; may be given several times.")
@click.option("--max-seconds", type=float, help="Longest time to spend on measuring the execution time.")
@click.option("--layers", is_flag=True, help="Show descriptions and the layers too.")
@click.option(
    "--format",
    "form",
    metavar="NAME",
    default="console",
    show_default=True,
    callback=_form,
    shell_complete=_forms,
    help="How to print the report: the name of a renderer, which 'profilerkit list' shows.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 where a value is partial or unavailable.")
def command(
    model: str,
    input_shape: tuple[str, ...],
    batch_size: int | None,
    device: str | None,
    metric: tuple[str, ...],
    leave_out: tuple[str, ...],
    max_seconds: float | None,
    layers: bool,
    form: str,
    strict: bool,
) -> None:
    """Profile the model and print its report."""
    from ..api import profile
    from ..backend import Device
    from ..status import Completeness
    from .loading import loaded_model, parse_shapes

    shapes, shape_batch = parse_shapes(input_shape)
    arguments: dict[str, Any] = {} if max_seconds is None else {"max_seconds": max_seconds}
    loaded = loaded_model(model)
    try:
        report = profile(
            loaded,
            input_shape=shapes,
            metrics=metric or None,
            leave_out=leave_out,
            batch_size=batch_size or shape_batch,
            device=Device(device.lower()) if device and device.lower() in ("cpu", "gpu") else device,
            strict=strict,
            **arguments,
        )
    except IncompleteStatusError as error:
        fail(f"{error}", INCOMPLETE)
    except ProfilerKitError as error:
        fail(str(error), MODEL_FAILED)
    except Exception as error:  # whatever the model raised: with --strict nothing is kept
        fail(f"{type(error).__name__}: {error}", MODEL_FAILED)
    click.echo(_rendered(report, form, layers))
    failed = [record for record in report.statuses.values() if record.completeness is Completeness.FAILED]
    if failed:
        fail(f"{', '.join(record.key for record in failed)} of {report.name} failed", MODEL_FAILED)


def _rendered(report: Any, form: str, details: bool) -> str:
    from ..render import render

    try:
        return render(report, form, details=details)
    except Exception as error:  # whatever a plugin's renderer does wrong
        fail(f"renderer {form!r} raised {type(error).__name__}: {error}", MODEL_FAILED)
