"""The bytes alive while a model runs, with the peak, and the operator and the layer that reach it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.arguments.checks import FLAG
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.render.notes import explain_incomplete
from profilerkit.render.values import find_peak_record, find_peak_sign
from profilerkit.results.report import Report
from profilerkit.trace.records import MemoryTimeline

from .canvas import COLOURS, finish, legend_above, new_figure, plain, title_axis, unit_for
from .reading import label_layer, one_report

#: Weights of a larger part of the peak leave too little room for the curve above them: the axis is broken there.
_MOST_WEIGHTS = 2 / 3
#: The heights of the axes above and below the break; both have one scale.
_ABOVE, _BELOW = 6, 1
#: The free space above the peak for its name, and the part of the weights in the upper axis, as shares of the rest.
_FREE, _WEIGHTS_SHOWN = 0.22, 0.1


def memory_timeline(report: Report, include_weights: bool = True, broken: bool | None = None) -> Any:
    """Return a figure of the bytes alive after each operator, with the operator and the layer at the peak.

    Weights are alive throughout; inputs and activations are drawn on top of them. The first step shows the inputs
    alone.

    Args:
        report: The report of one model.
        include_weights: Whether the weights are drawn, and counted in the peak.
        broken: Whether the axis leaves out most of the weights, with a mark at the break. None means that it does if
            the weights are more than two thirds of the peak.

    Raises:
        ValueError: the report has no memory timeline: the model was not traced, or raised an error.
        ImportError: matplotlib is missing.
    """
    include_weights = FLAG("include_weights", include_weights)
    report = one_report(report, "memory_timeline")
    memory = report.memory
    if memory is None or not memory.live_bytes:
        raise ValueError(
            f"the report of {report.name} holds no bytes alive: the model was not run by a trace; "
            "profile it with inputs and metrics=['memory_footprint']"
        )
    figure = new_figure(9, 4.5)
    peak = memory.peak_bytes(include_weights)
    factor, unit = unit_for(peak, "B", Scale.IEC)
    weights = memory.weight_bytes if include_weights else 0
    axes = _make_axes(figure, weights / factor, peak / factor, broken)
    live = [memory.input_bytes, *memory.live_bytes, memory.live_bytes[-1]]  # the last once more: it ends its step
    tops = [(weights + alive) / factor for alive in live]
    for axis in axes:
        _draw_areas(axis, weights / factor, tops)
    _mark_peak(axes[0], report, memory, peak, factor)
    axes[-1].set_xlabel("Operators, in the order in which they run")
    axes[0].set_ylabel(title_axis("Bytes alive", unit))
    legend_above(axes[0])
    record = find_peak_record(report)
    bounds = list(explain_incomplete([record] if record is not None else []))
    if memory.missing and not bounds:
        bounds = [f"A lower bound; not counted: {', '.join(memory.missing)}."]
    cut = "The axis is broken: most of the weights, which are alive throughout, is left out." if len(axes) > 1 else ""
    return finish(figure, [report], "memory", [memory.note, cut, *bounds])


def _make_axes(figure: Any, weights: float, peak: float, broken: bool | None) -> Sequence[Any]:
    """Return one axis from zero, or two with a break between them, the upper first."""
    above = peak - weights
    span = above * (1 + _FREE + _WEIGHTS_SHOWN)
    start = weights - above * _WEIGHTS_SHOWN
    end_of_lower = span * _BELOW / _ABOVE
    is_broken = weights > _MOST_WEIGHTS * peak if broken is None else broken
    if not is_broken or not above or start <= end_of_lower:  # without a break, or with nothing in it
        axis = figure.subplots()
        axis.set_ylim(0, peak * (1 + _FREE))
        return [axis]
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(_ABOVE, _BELOW))
    upper.set_ylim(start, start + span)
    lower.set_ylim(0, end_of_lower)
    upper.spines["bottom"].set_visible(False)
    upper.tick_params(axis="x", length=0, labelbottom=False)
    lower.set_yticks([0])
    mark = {"marker": [(-1, -0.6), (1, 0.6)], "markersize": 9, "linestyle": "none", "color": "black", "clip_on": False}
    upper.plot([0], [0], transform=upper.transAxes, label="_break", **mark)
    lower.plot([0], [1], transform=lower.transAxes, label="_break", **mark)
    return [upper, lower]


def _draw_areas(axis: Any, weights: float, tops: Sequence[float]) -> None:
    steps = range(len(tops))
    look = {"alpha": 0.6, "linewidth": 0}
    if weights:
        axis.fill_between(steps, weights, color=COLOURS[1], label="weights", **look)
    bottom = [weights] * len(tops)
    axis.fill_between(steps, bottom, tops, step="post", color=COLOURS[0], label="inputs and activations", **look)
    axis.set_xlim(0, len(tops) - 1)
    axis.spines[["top", "right"]].set_visible(False)


def _mark_peak(axis: Any, report: Report, memory: MemoryTimeline, peak: int, factor: float) -> None:
    """Mark the peak, and name the operator and the layer that reach it; the text stays inside of the figure."""
    index = memory.peak_index
    what = "the inputs"
    if index is not None and report.operators is not None and index < len(report.operators):
        row = report.operators[index]
        what = f"{row['operator']} in {label_layer({'path': row['layer']})}"
    at = 0.5 if index is None else index + 1.5  # the middle of its step: the first step has the inputs alone
    share_of_width = at / len(memory.live_bytes)
    alignment = "center"
    if share_of_width < 1 / 4:
        alignment = "left"
    elif share_of_width > 3 / 4:
        alignment = "right"
    axis.plot([at], [peak / factor], "v", color="black", markersize=6, clip_on=False)
    axis.annotate(
        plain(f"peak {find_peak_sign(report)}{scale_value(peak, 'B', Scale.IEC)}: {what}", 90),
        (at, peak / factor),
        xytext=(0, 9),
        textcoords="offset points",
        ha=alignment,
        fontsize="small",
    )
