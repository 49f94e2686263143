"""``profilerkit mesh``: the smallest mesh that fits a device; and the options of ``profile`` for a rank of a mesh."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import click

from profilerkit.cli import USAGE, emit, fail
from profilerkit.cli.completions import complete_devices, complete_models
from profilerkit.cli.option_values import check_shapes, make_callback
from profilerkit.errors import ArgumentError, DeviceFileError, DeviceNotKnownError

from ..meshes.layout import MESH, OPEN_MESH, SCHEMES

# Options of ``profile`` for one rank of a mesh; the command has one of them too.

mesh_option: click.Option = click.Option(
    ["--mesh"],
    metavar="NAME=SIZE,...",
    callback=make_callback(MESH),
    help="Profile a training step of one rank of a mesh of devices, such as dp_shard=64,tp=8; no device is needed.",
)
parallelize_option: click.Option = click.Option(
    ["--parallelize"],
    metavar="FUNCTION",
    help=f"How the model is spread over the mesh: {', '.join(SCHEMES)}, or a function of both, file.py:name.",
)
rank_option: click.Option = click.Option(
    ["--rank"], type=click.IntRange(min=0), help="The rank of the mesh. Default: 0."
)
_make_count_option = partial(click.Option, type=click.IntRange(min=1), metavar="NUMBER")
gradient_accumulation_steps_option: click.Option = _make_count_option(
    ["--gradient-accumulation-steps"],
    help="With --mesh: the passes of one step, whose gradients are added up. Default: 1.",
)
ranks_per_node_option: click.Option = _make_count_option(
    ["--ranks-per-node"], help="With --mesh and --on: how many devices a node has. Default: 8."
)
network_option: click.Option = click.Option(
    ["--network"],
    type=click.FloatRange(min=0, min_open=True),
    metavar="BYTES",
    help="With --mesh and --on: bytes per second between nodes, of each device; 400 Gbit/s are 50e9.",
)


@click.command("mesh")
@click.argument("model", shell_complete=complete_models)
@click.option(
    "--mesh",
    required=True,
    metavar="NAME=SIZE,...",
    callback=make_callback(OPEN_MESH),
    help="The sizes of the mesh, of which ? is looked for: dp_shard=?,tp=8.",
)
@click.option(
    "--fits",
    required=True,
    metavar="DEVICE",
    shell_complete=complete_devices,
    help="The device whose memory a step must fit, or so many bytes.",
)
@click.option(
    "--input-shape",
    multiple=True,
    metavar="SHAPE",
    callback=make_callback(check_shapes),
    help="Shape of one sample of a rank: 128,1024.",
)
@click.option("--batch-size", type=click.IntRange(min=1), help="Samples of a rank. Default: 1.")
@click.option("--optimizer", metavar="NAME", help="The optimizer whose state each rank keeps, such as adamw.")
@click.option("--backend", metavar="NAME", help="The framework. Default: the one that the model's file imports.")
def command(model: str, mesh: dict[str, int | None], fits: str, **options: Any) -> None:
    """Find the fewest ranks with which a training step fits the memory of a device.

    MODEL is the function that builds the model: package.module:name or path/to/file.py:name. 'profilerkit profile MODEL
    --mesh' reports on one rank.
    """
    from ..meshes.fitting import find_mesh

    arguments = {name: value for name, value in options.items() if value is not None}
    try:
        report = find_mesh(model, mesh=mesh, fits=_read_limit(fits), **arguments)
    except (ArgumentError, DeviceFileError, DeviceNotKnownError) as error:
        fail(str(error), USAGE, error)
    emit(str(report))


command.params.append(parallelize_option)


def _read_limit(fits: str) -> float | str:
    """Return a number of bytes, or the text of a device, which may be a number: "4090"."""
    from profilerkit.devices import device

    try:
        device(fits)
    except DeviceNotKnownError:
        with suppress(ValueError):  # other texts are unknown names, and so are "inf" and "nan"
            return float(fits) if fits[:1].isdigit() else fits
    return fits
