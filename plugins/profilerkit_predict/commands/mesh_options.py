"""The options of ``profile`` for one rank of a mesh."""

from __future__ import annotations

import click

from profilerkit.cli.option_values import make_callback

from ..meshes.layout import MESH, SCHEMES

__all__ = [
    "gradient_accumulation_steps_option",
    "mesh_option",
    "network_option",
    "parallelize_option",
    "rank_option",
    "ranks_per_node_option",
]

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
gradient_accumulation_steps_option: click.Option = click.Option(
    ["--gradient-accumulation-steps"],
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="With --mesh: the passes of one step, whose gradients are added up. Default: 1.",
)
network_option: click.Option = click.Option(
    ["--network"],
    type=click.FloatRange(min=0, min_open=True),
    metavar="BYTES",
    help="With --mesh and --on: bytes per second between nodes, of each device; 400 Gbit/s are 50e9.",
)
ranks_per_node_option: click.Option = click.Option(
    ["--ranks-per-node"],
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="With --mesh and --on: how many devices a node has. Default: 8.",
)
