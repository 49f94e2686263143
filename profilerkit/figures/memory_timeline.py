"""The bytes alive while a model runs, with the peak, and the operator and the layer that reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..arguments.checking import checks_arguments
from ..piping.quantity import Scale, scale_value
from .canvas import COLOURS, finished, label_of, legend_above, new_figure, one_report, plain, titled, unit_for

if TYPE_CHECKING:
    from ..results.report import Report
    from ..trace.records import MemoryTimeline

__all__ = ["memory_timeline"]


@checks_arguments
def memory_timeline(report: Report, include_weights: bool = True) -> Any:
    """Return a figure of the bytes alive after each operator, with the operator and the layer at the peak.

    Weights are alive throughout; inputs and activations are drawn on top of them. The first step shows the inputs
    alone.

    Args:
        report: The report of one model.
        include_weights: Whether the weights are drawn, and counted in the peak.

    Raises:
        ValueError: the report has no memory timeline: the model was not traced, or raised an error.
        ImportError: matplotlib is missing.
    """
    report = one_report(report, "memory_timeline")
    memory = report.memory
    if memory is None or not memory.live_bytes:
        raise ValueError(
            f"the report of {report.name} holds no bytes alive: the model was not run by a trace; "
            "profile it with inputs and metrics=['memory_footprint']"
        )
    figure = new_figure(9, 4.5)
    axis = figure.subplots()
    peak = memory.peak_bytes(include_weights)
    factor, unit = unit_for(peak, "B", Scale.IEC)
    weights = memory.weight_bytes if include_weights else 0
    live = [(memory.input_bytes, *memory.live_bytes), memory.live_bytes[-1:]]
    tops = [(weights + alive) / factor for part in live for alive in part]
    steps = range(len(tops))
    if weights:
        axis.fill_between(steps, weights / factor, color=COLOURS[1], alpha=0.6, linewidth=0, label="weights")
    axis.fill_between(
        *(steps, [weights / factor] * len(tops), tops),
        step="post",
        color=COLOURS[0],
        alpha=0.6,
        linewidth=0,
        label="inputs and activations",
    )
    _mark_peak(axis, report, memory, peak, factor)
    axis.set_xlim(0, len(tops) - 1)
    axis.set_ylim(0, peak / factor * 1.22)
    axis.set_xlabel("Operators, in the order in which they run")
    axis.set_ylabel(titled("Bytes alive", unit))
    axis.spines[["top", "right"]].set_visible(False)
    legend_above(axis)
    missing = f"A lower bound; not counted: {', '.join(memory.missing)}." if memory.missing else ""
    return finished(figure, [report], "memory", [memory.note, missing])


def _mark_peak(axis: Any, report: Report, memory: MemoryTimeline, peak: int, factor: float) -> None:
    index = memory.peak_index
    what = "the inputs"
    if index is not None and report.operators is not None and index < len(report.operators):
        row = report.operators[index]
        what = f"{row['operator']} in {label_of({'path': row['layer']})}"
    at = 0.5 if index is None else index + 1.5
    middle = len(memory.live_bytes) / 2
    axis.plot([at], [peak / factor], "v", color="black", markersize=6, clip_on=False)
    axis.annotate(
        plain(f"peak {scale_value(peak, 'B', Scale.IEC)}: {what}", 90),
        (at, peak / factor),
        xytext=(0, 9),
        textcoords="offset points",
        ha="left" if at < middle / 2 else "right" if at > middle * 1.5 else "center",
        fontsize="small",
    )
