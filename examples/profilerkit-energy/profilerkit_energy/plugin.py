"""What profilerkit finds: the module that the entry point in setup.cfg names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profilerkit import CommandInfo, FigureInfo, ProfilerFunction, StatusKey, hookimpl

from . import AccuracyPerJoule, ComputeAccuracyPerJoule, ComputeEnergy, EnergyPerInference

if TYPE_CHECKING:
    from collections.abc import Callable

    import click


@hookimpl
def profilerkit_profiler_functions() -> list[ProfilerFunction]:
    """Offer both metrics to the profilers of every backend."""
    return [ComputeEnergy(), ComputeAccuracyPerJoule()]


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Name both as this package's own: another plugin that computes one of them is an error that names both."""
    return [EnergyPerInference, AccuracyPerJoule]


@hookimpl
def profilerkit_commands() -> list[CommandInfo]:
    """Offer ``profilerkit energy-counters``; it is imported when it is used."""
    example = "profilerkit energy-counters --gpu 1"
    return [CommandInfo("energy-counters", _load_command, "List the energy counters of this machine.", (example,))]


@hookimpl
def profilerkit_figures() -> list[FigureInfo]:
    """Offer ``report.plot("energy")``; matplotlib is imported when it is drawn."""
    return [FigureInfo("energy", _load_figure, "joules of one pass in each sample")]


def _load_command() -> click.Command:
    from .command import command

    return command


def _load_figure() -> Callable[..., Any]:
    from .figure import draw

    return draw
