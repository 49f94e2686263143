"""The figure of the samples that the energy of a pass is the median of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profilerkit import Measurement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from profilerkit import Report

__all__ = ["draw"]


def draw(report: Report) -> Figure:
    """Return a figure of the joules of one pass in each sample, in the order in which they were taken.

    Raises `ValueError` for a report without a measured energy.
    """
    from matplotlib.figure import Figure

    energy = report["energy_per_inference"]
    if not isinstance(energy, Measurement):
        raise ValueError("the report has no measured energy; ask for metrics=['energy_per_inference']")
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    axes.plot(range(1, len(energy.samples) + 1), energy.samples, "o")
    axes.axhline(energy.median, linestyle="--", color="grey")
    axes.set(title=report.name, xlabel="sample", ylabel="J in one forward pass")
    return figure
