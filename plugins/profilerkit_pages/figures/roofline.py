"""Achieved FLOPs per second of each layer against its FLOPs per byte, below the ceilings of the machine.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009 (Communications of
the ACM 52, 4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import pi, sqrt
from typing import Any, NamedTuple

from profilerkit.arguments.checks import TOP
from profilerkit.count_text import format_count
from profilerkit.piping.quantity import Scale, format_number, scale_value
from profilerkit.results.report import Report
from profilerkit.trace.layer_table import LayerTable

from ..layer_work import find_shared_times, sum_forward_work
from .canvas import COLOURS, GREY, finish, new_figure, plain
from .ceilings import Ceilings
from .reading import explain_metric, label_layer, one_report, require_column, require_layers

#: The space between a dot and its number, in points.
_BESIDE = 2
#: The area of a dot, in square points: the least, and what is added for a layer with all of the time.
_LEAST_AREA, _AREA_OF_ALL = 20, 500
#: The longest name of a layer or type in the legend.
_LONGEST_NAME = 28
#: An axis whose end is less than so many times its start has hardly one power of ten.
_NARROW = 30


def roofline(report: Report, ceilings: Ceilings | None = None, top: int = 5) -> Any:
    """Return a figure with a dot for each layer: FLOPs per second of its own forward time against FLOPs per byte.

    The bytes are read and written by the layer's operators in the trace. Data that stays in a cache counts too, so a
    layer may be above the line of the memory. The area of a dot grows with the time of the layer.

    Args:
        report: The report of one model, with operators and ``layer_times``.
        ceilings: The ceilings of the model's machine, such as ``Ceilings.measure(report)`` for this CPU. None draws no
            ceilings.
        top: The number of layers that are numbered and named: the layers with the most time.

    Raises:
        ValueError: the report has no operators or no times of layers, or no layer has FLOPs, bytes and a time.
        ImportError: matplotlib is missing.
    """
    top = TOP("top", top)
    report = one_report(report, "roofline")
    table = require_layers(report)
    points = _read_points(report, table)
    whole = sum(row["own_forward_seconds"] or 0.0 for row in table)  # also of layers that cannot be drawn
    figure = new_figure(9.5, 5.6)
    axis = figure.subplots()
    axis.set_xscale("log")
    axis.set_yscale("log")
    if ceilings is not None:
        _draw_ceilings(axis, points, ceilings)
    _draw_points(axis, points, whole)
    _name_slowest(axis, points[:top], whole)
    _label_axes(axis)
    figure.legend(loc="outside right upper", fontsize="x-small", frameon=False)
    notes = [*_list_notes(points, len(table) - len(points), ceilings), *explain_metric([report], "layer_times")]
    return finish(figure, [report], "achieved FLOP/s of the layers", notes)


# Points ---------------------------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """A layer with its own work in a forward pass, without the layers inside."""

    path: str
    type: str
    flops: int
    moved_bytes: int
    seconds: float

    @property
    def intensity(self) -> float:
        """FLOPs for each byte that is read or written."""
        return self.flops / self.moved_bytes

    @property
    def speed(self) -> float:
        """FLOPs per second."""
        return self.flops / self.seconds


def _read_points(report: Report, table: LayerTable) -> list[_Point]:
    """Return the layers to draw, the slowest first; raises `ValueError` if none has FLOPs, bytes and a time."""
    if report.operators is None:
        raise ValueError(f"the report of {report.name} holds no operators, so no bytes: the model was not traced")
    require_column(report, table, "own_forward_seconds")
    work = sum_forward_work(report.operators)
    drawn = work.keys() - find_shared_times(report, work)
    points = [
        _Point(row["path"], row["type"], *work[row["path"]], row["own_forward_seconds"])
        for row in table
        if row["path"] in drawn and (row["own_forward_seconds"] or 0.0) > 0
    ]
    if not points:
        raise ValueError(f"there is nothing to draw of {report.name}: no layer has FLOPs, bytes and a time of its own")
    return sorted(points, key=lambda point: point.seconds, reverse=True)


# Drawing --------------------------------------------------------------------------------------------------------------


def _list_notes(points: Sequence[_Point], left_out: int, ceilings: Ceilings | None) -> Iterator[str]:
    """Yield the sentences below the figure; ``left_out`` is the number of layers that cannot be drawn."""
    if left_out:
        yield f"Not drawn, without known FLOPs, bytes or time of their own: {format_count(left_out, 'layer')}."
    if ceilings is None:
        yield (
            "No ceilings were given: Ceilings.measure(report) measures those of this CPU, Ceilings.of_device(name) "
            "has those of a device."
        )
        return
    above = sum(point.speed > ceilings.roof(point.intensity) for point in points)
    if above:
        yield f"Above the ceilings: {format_count(above, 'layer')}; {_explain_above(ceilings)}."


def _explain_above(ceilings: Ceilings) -> str:
    """Return why layers may be above the ceilings."""
    if ceilings.cached_bytes_per_second:
        return (
            "something else ran while the ceilings were measured, or they are computed in a better way than that work"
        )
    return "their bytes stay in a cache, or they are computed in a better way than what the ceilings were measured with"


def _draw_ceilings(axis: Any, points: Sequence[_Point], ceilings: Ceilings) -> None:
    """Draw the lines of the memory, the caches and the arithmetic, and make the axis as wide as they are."""
    peak, ridge = ceilings.flops_per_second, ceilings.ridge
    memory, cache = ceilings.bytes_per_second, ceilings.cached_bytes_per_second
    start = min(ridge, *(point.intensity for point in points)) / 3
    end = max(ridge, *(point.intensity for point in points)) * 3
    speeds = f"{scale_value(peak, 'FLOP/s', Scale.SI)} and {scale_value(memory, 'B/s', Scale.SI)}"
    meeting = f"{speeds},\nmeeting at {format_number(ridge)} FLOPs per byte"
    axis.plot([start, ridge, end], [start * memory, peak, peak], color="black", linewidth=1.2, label=meeting)
    if not cache:
        axis.set_xlim(start, end)
        return
    bend = peak / cache  # the FLOPs for each byte from which arithmetic is the limit, with all bytes in caches
    in_caches = f"{scale_value(cache, 'B/s', Scale.SI)} in caches"
    cache_start = min(start, bend / 3)
    look = {"color": "black", "linewidth": 1, "linestyle": "--"}
    axis.plot([cache_start, bend], [cache_start * cache, peak], label=in_caches, **look)
    axis.plot([bend, ridge], [peak, peak], **look)
    axis.set_xlim(cache_start, end)


def _draw_points(axis: Any, points: Sequence[_Point], whole: float) -> None:
    """Draw the layers in the colors of their types; the types that take least time share grey if colors run out."""
    seconds = Counter[str]()
    for point in points:
        seconds.update({point.type: point.seconds})
    ranked = [kind for kind, _ in seconds.most_common()]
    groups = [({kind}, colour, plain(kind, _LONGEST_NAME)) for kind, colour in zip(ranked, COLOURS, strict=False)]
    others = set(ranked[len(COLOURS) :])
    if others:
        groups.append((others, GREY, "other types"))
    for kinds, colour, label in groups:
        group = [point for point in points if point.type in kinds]
        x, y = [point.intensity for point in group], [point.speed for point in group]
        areas = [_measure_dot(point, whole) for point in group]
        axis.scatter(x, y, s=areas, color=colour, alpha=0.7, linewidths=0, label=label)


def _measure_dot(point: _Point, whole: float) -> float:
    """Return the area of the dot of a layer, in square points; ``whole`` is the time of all layers."""
    return _LEAST_AREA + _AREA_OF_ALL * point.seconds / whole


def _name_slowest(axis: Any, slowest: Sequence[_Point], whole: float) -> None:
    """Number the slowest layers, and name them in the legend, each with its share of the time of all layers."""
    from matplotlib.patheffects import withStroke

    outline = withStroke(linewidth=2.5, foreground="white")
    for number, point in enumerate(slowest, 1):
        distance = sqrt(_measure_dot(point, whole) / pi) + _BESIDE
        side = 1 if number % 2 else -1  # dots that lie close together have numbers on different sides
        axis.annotate(
            str(number),
            (point.intensity, point.speed),
            xytext=(side * distance, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center_baseline",
            fontsize="small",
            fontweight="bold",
            path_effects=[outline],
        )
        name = plain(label_layer({"path": point.path}), _LONGEST_NAME)
        share = 100 * point.seconds / whole
        # A line without points has no mark in the legend, only its text.
        axis.plot([], [], linestyle="none", label=f"{number}  {name}: {share:.3g} % of the time")


def _label_axes(axis: Any) -> None:
    """Write the titles and the ticks of the axes, whose limits all that is drawn may have changed."""
    axis.set_xlabel("Arithmetic intensity (FLOPs per byte)")
    axis.set_ylabel("Achieved FLOP/s")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    _label_ticks(axis.xaxis, axis.get_xlim())
    _label_ticks(axis.yaxis, axis.get_ylim())


def _label_ticks(axis: Any, limits: tuple[float, float]) -> None:
    """Label the powers of ten of a logarithmic axis; if hardly one is within the limits, ticks between them too."""
    start, end = limits
    axis.set_major_formatter(lambda value, _: str(scale_value(value, "", Scale.SI)))
    axis.set_minor_formatter(_label_between if end < _NARROW * start else lambda value, _: "")


def _label_between(value: float, _: Any) -> str:
    """Return the label of a tick between powers of ten: only twice and five times a power have one."""
    first_digit = f"{value:e}"[0]
    return str(scale_value(value, "", Scale.SI)) if first_digit in "25" else ""
