"""``profilerkit profile MODEL``."""

from __future__ import annotations

import json
from typing import Any

import click

from ..errors import IncompleteStatusError, ProfilerKitError
from . import INCOMPLETE, MODEL_FAILED, fail

__all__ = ["command"]


@click.command("profile", help="Profile a model: MODEL is package.module:name or path/to/file.py:name.")
@click.argument("model")
@click.option("--input-shape", multiple=True, metavar="SHAPE", help="1,3,224,224 or ids=1,128:int64; batch first.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Samples in one forward pass.")
@click.option("--device", help="cpu, gpu, or a string of the framework such as cuda:1.")
@click.option("--metric", multiple=True, help="Only this metric; may be given several times.")
@click.option("--max-seconds", type=float, help="Longest time to spend on measuring the execution time.")
@click.option("--layers", is_flag=True, help="Show descriptions and the layers too.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--strict", is_flag=True, help="Exit with 1 where a value is partial or unavailable.")
def command(
    model: str,
    input_shape: tuple[str, ...],
    batch_size: int | None,
    device: str | None,
    metric: tuple[str, ...],
    max_seconds: float | None,
    layers: bool,
    form: str,
    strict: bool,
) -> None:
    """Profile the model and print its report."""
    from ..api import profile
    from ..backend import Device
    from ..status import Completeness
    from .loading import load_model, parse_shapes

    shapes, shape_batch = parse_shapes(input_shape)
    arguments: dict[str, Any] = {} if max_seconds is None else {"max_seconds": max_seconds}
    loaded = load_model(model)
    try:
        report = profile(
            loaded,
            input_shape=shapes,
            metrics=metric or None,
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
    click.echo(json.dumps(report.to_dict(), indent=2) if form == "json" else report.to_text(details=layers))
    failed = [record for record in report.statuses.values() if record.completeness is Completeness.FAILED]
    if failed:
        fail(f"{', '.join(record.key for record in failed)} of {report.name} failed", MODEL_FAILED)
