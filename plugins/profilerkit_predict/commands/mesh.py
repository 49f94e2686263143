"""``profilerkit mesh``: the smallest mesh that fits a device, and files of the steps of ranks; ``profile`` options."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from profilerkit.cli import USAGE, emit, fail
from profilerkit.cli.completions import complete_devices, complete_models
from profilerkit.cli.option_values import check_shapes, make_callback
from profilerkit.cli.options import TypedOption
from profilerkit.errors import ArgumentError, DeviceFileError, DeviceNotKnownError
from profilerkit.piping.quantity import Scale, scale_value

from ..meshes.layout import MESH, OPEN_MESH, SCHEMES

# Options of ``profile`` for one rank of a mesh; the command has some of them too.

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


#: The options that only the timeline has.
_OF_TIMELINE = ("on", "rank", "network", "ranks_per_node")


@click.command("mesh")
@click.argument("model", shell_complete=complete_models)
@click.option(
    "--mesh",
    required=True,
    metavar="NAME=SIZE,...",
    callback=make_callback(OPEN_MESH),
    help="The sizes of the mesh, such as dp_shard=64,tp=8; with --fits one of them is looked for: dp_shard=?,tp=8.",
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
@click.option(
    "--fits",
    metavar="DEVICE",
    shell_complete=complete_devices,
    help="Find the fewest ranks with which a step fits this device, or so many bytes.",
)
@click.option(
    "--execution-traces",
    "folder",
    cls=TypedOption,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write what each rank does as Chakra execution traces, for ASTRA-sim.",
)
@click.option(
    "--timeline",
    cls=TypedOption,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the predicted step of a rank as a Chrome trace, for Perfetto; give --on too.",
)
@click.option(
    "--on", metavar="DEVICE", shell_complete=complete_devices, help="The device of each rank, for --timeline."
)
def command(
    model: str,
    mesh: dict[str, int | None],
    fits: str | None,
    folder: Path | None,
    timeline: Path | None,
    **options: Any,
) -> None:
    """Find the smallest mesh that a training step fits on, or write files of what each rank does.

    MODEL is the function that builds the model: package.module:name or path/to/file.py:name. Give one of --fits,
    --execution-traces and --timeline; 'profilerkit profile MODEL --mesh' reports on one rank.
    """
    if [fits, folder, timeline].count(None) != 2:
        raise click.UsageError("give one of --fits, --execution-traces and --timeline")
    if fits is None and None in mesh.values():
        raise click.UsageError("a size of --mesh is left open with ?; that is for --fits")
    arguments = {name: value for name, value in options.items() if value is not None}
    _require_timeline_options(arguments, has_timeline=timeline is not None)
    arguments["mesh"] = mesh
    try:
        if fits is not None:
            _find(model, fits, arguments)
        elif folder is not None:
            _write_traces(model, folder, arguments)
        elif timeline is not None:
            _write_timeline(model, timeline, arguments)
    except (ArgumentError, DeviceFileError, DeviceNotKnownError) as error:
        fail(str(error), USAGE, error)


command.params.extend([parallelize_option, rank_option, network_option, ranks_per_node_option])


def _require_timeline_options(arguments: Mapping[str, Any], *, has_timeline: bool) -> None:
    """Raise `click.UsageError` for a timeline without its device, and for options of a timeline without one."""
    if has_timeline and "on" not in arguments:
        raise click.UsageError("--timeline is predicted for a device; give it: --on h100")
    for name in _OF_TIMELINE:
        if name in arguments and not has_timeline:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --timeline alone")


def _find(model: str, fits: str, arguments: dict[str, Any]) -> None:
    from profilerkit.devices import device

    from ..meshes.fitting import find_mesh

    limit: float | str = fits
    try:
        device(fits)  # "4090" is one too
    except DeviceNotKnownError:
        with suppress(ValueError):  # other texts are unknown names, and so are "inf" and "nan"
            limit = float(fits) if fits[:1].isdigit() else fits
    emit(str(find_mesh(model, fits=limit, **arguments)))


def _write_traces(model: str, folder: Path, arguments: dict[str, Any]) -> None:
    from ..meshes.execution_traces import GROUPS_FILE, write_execution_traces

    paths = write_execution_traces(model, folder=folder, **arguments)
    emit(f"written: {paths[0]} to {paths[-1].name}, and the groups of ranks in {GROUPS_FILE}")


def _write_timeline(model: str, path: Path, arguments: dict[str, Any]) -> None:
    from ..meshes.step_timeline import write_step_timeline

    seconds = scale_value(write_step_timeline(model, path=path, **arguments), "s", Scale.TIME)
    emit(f"written: {path}, a step of {seconds} at least; open it in ui.perfetto.dev")
