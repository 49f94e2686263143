"""``profilerkit join PROFILE --model MODEL``: a profile that was made elsewhere, by the layers of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profilerkit.arguments.checks import DEPTH, TOP
from profilerkit.cli import NOT_KEPT, USAGE, fail
from profilerkit.cli.loading import load_job
from profilerkit.cli.option_values import check_shapes, make_callback, require_suffix
from profilerkit.cli.options import TypedOption, console_or_json, output_option, trust_option
from profilerkit.count_text import format_count
from profilerkit.errors import ArgumentError, DeviceNotKnownError, InputError, NotOfferedError, ProfileFileError

from .results import save_and_print

if TYPE_CHECKING:
    from profilerkit.job import Job

    from ..joining import JoinedProfile


@click.command("join")
@click.argument("profile", metavar="PROFILE")
@click.option("--model", required=True, cls=TypedOption, help="The MODEL that was profiled, as 'profile' takes it.")
@click.option(
    "--input-shape",
    multiple=True,
    metavar="SHAPE",
    callback=make_callback(check_shapes),
    help="Shape of one sample: 3,224,224, 128:int64 or ids=128:int64; repeat it for several inputs.",
)
@click.option("--batch-size", type=click.IntRange(min=1), help="Samples in one pass of the profile.")
@click.option("--training/--forward", default=None, help="What the passes are; read from the profile unless given.")
@click.option("--device", help="The device that it was profiled on, of 'profilerkit devices' or a TOML file.")
@click.option("--dtype", help="The dtype that the products ran in, if it is not the model's own: bf16, tf32.")
@click.option(
    "--skip", type=click.IntRange(min=0), default=0, show_default=True, help="Passes to leave out at the start."
)
@trust_option
@click.option(
    "--depth", type=click.IntRange(min=0), callback=make_callback(DEPTH), help="Show layers down to this depth."
)
@click.option(
    "--top", type=click.IntRange(min=1), callback=make_callback(TOP), help="Show this many layers, by own time."
)
@console_or_json
@output_option("Also write a file: .json or .txt.", require_suffix(".json", ".txt"))
@click.option("--strict", is_flag=True, help="Exit with 1 if a layer is above 1 of what the device can do.")
def command(
    profile: str,
    model: str,
    trust: bool,
    form: str,
    output: Path | None,
    strict: bool,
    depth: int | None,
    top: int | None,
    **options: Any,
) -> None:
    """Match a profile from any machine with the layers of a model and their exact counts.

    PROFILE is a file of torch.profiler (Chrome JSON), of onnxruntime or of jax.profiler.trace, compressed or not.
    'profilerkit trace-script' prints a script that makes one with torch alone.
    """
    from profilerkit.job import Job

    joined = _join(profile, load_job(Job(model, trust=trust), "--model"), options)
    save_and_print(joined, output, form, depth=depth, top=top)
    if strict and joined.device is not None and joined.above_one:
        fail(f"{format_count(len(joined.above_one), 'layer')} above 1 of what {joined.device.name} can do", NOT_KEPT)


def _join(profile: str, loaded: Job, options: dict[str, Any]) -> JoinedProfile:
    """Return the joined profile; a wrong request ends the command."""
    from ..joining import join

    shapes = options.pop("input_shape")
    try:
        sizes = {"input_shape": shapes} if shapes is not None else _choose_inputs(profile, loaded)
        return join(profile, loaded.model, name=loaded.name, **sizes, **options)
    except (ArgumentError, DeviceNotKnownError, InputError, NotOfferedError, ProfileFileError) as error:
        fail(str(error), USAGE, error)


def _choose_inputs(profile: str, loaded: Job) -> dict[str, Any]:
    """Return the inputs of the model's loader, unless the profile's own script has noted which were profiled."""
    from ..joining import read_profile

    if read_profile(profile).metadata:
        return {}
    return {"inputs": loaded.inputs, "input_shape": loaded.input_shape}
