"""``profilerkit energy-counters``."""

from __future__ import annotations

import click

from profilerkit.cli import emit

from .nvml import nvml_counters
from .rapl import POWERCAP, rapl_counters

__all__ = ["command"]


@click.command("energy-counters")
@click.option("--gpu", default=0, show_default=True, help="The number of the GPU.")
def command(gpu: int) -> None:
    """List the energy counters that can be read here, and why others cannot."""
    for kind in (rapl_counters(POWERCAP), nvml_counters(gpu, None)):
        for counter in kind.counters:
            emit(f"{counter.name}: {counter.joules_per_count:g} J a count, every {counter.update_seconds:g} s")
        for reason in kind.missing:
            emit(reason)
