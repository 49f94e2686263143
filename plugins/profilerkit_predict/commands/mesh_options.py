"""The options of ``profile`` for one rank of a mesh."""

from __future__ import annotations

import click

from profilerkit.cli.options import make_callback

from ..meshes.layout import MESH, SCHEMES

__all__ = ["mesh_option", "parallelize_option", "rank_option"]

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
