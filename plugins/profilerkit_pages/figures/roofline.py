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
#: The area of a dot, in square points: for a layer without time, and the area added for a layer with all of the time.
_LEAST_AREA, _AREA_OF_ALL = 20, 500
#: The area of a diamond.
_DIAMOND_AREA = 26
#: The longest name of a layer or type in the legend.
_LONGEST_NAME = 28
#: An axis whose end is less than so many times its start has hardly one power of ten.
_NARROW = 30


def roofline(report: Report, ceilings: Ceilings | None = None, top: int = 5) -> Any:
    """Return a figure with a dot for each layer: FLOPs per second of its own forward time against FLOPs per byte.

    Layers with a predicted time (`profilerkit.profile` with ``on=``) have a hollow diamond at this time. A report
    without measured times has diamonds alone, and the figure says that nothing was measured.

    The bytes are read and written by the layer's operators in the trace. Data that stays in a cache counts too, so a
    layer may be above the line of the memory. The area of a dot grows with the time of the layer.

    Args:
        report: The report of one model, with operators and ``layer_times`` or ``predicted_layers``.
        ceilings: The ceilings of the model's machine, such as ``Ceilings.measure(report)`` for this CPU. None draws no
            ceilings.
        top: The number of layers that are numbered and named: the layers with the most time.

    Raises:
        ValueError: the report has no operators or no times of layers, or no layer has FLOPs, bytes and a time.
        ImportError: matplotlib is missing.
    """
    top = TOP("top", top)
    report = one_report(report, "roofline")
    points = _read_points(report)
    figure = new_figure(9.5, 5.6)
    axis = figure.subplots()
    axis.set_xscale("log")
    axis.set_yscale("log")
    if ceilings is not None:
        _draw_ceilings(axis, [*points.measured, *points.predicted], ceilings)
    _draw_measured(axis, points)
    _name_slowest(axis, points, top)
    _draw_predicted(axis, points)
    speed = "achieved FLOP/s" if points.measured else f"FLOP/s ({points.prediction_label})"
    _label_axes(axis, speed)
    figure.legend(loc="outside right upper", fontsize="x-small", frameon=False)
    title = f"{speed} of the layers" if points.measured else speed
    times = "layer_times" if points.measured else "predicted_layers"
    return finish(figure, [report], title, [*_list_notes(points, ceilings), *explain_metric([report], times)])


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


class _Points(NamedTuple):
    """The layers of a report that can be drawn, the slowest first.

    Attributes:
        measured: The layers at their measured times; empty if nothing was measured.
        predicted: The layers with a predicted time, at this time.
        prediction_label: The kind of the predicted times: "predicted, at most".
        left_out: The number of layers that cannot be drawn: they have no FLOPs, bytes or time of their own.
        whole: The seconds of all layers, also of layers that cannot be drawn; predicted if nothing was measured.
    """

    measured: list[_Point]
    predicted: list[_Point]
    prediction_label: str
    left_out: int
    whole: float

    @property
    def main(self) -> list[_Point]:
        """The points that are numbered and compared with the ceilings."""
        return self.measured or self.predicted


def _read_points(report: Report) -> _Points:
    """Return the layers to draw; raises `ValueError` if none has FLOPs, bytes and a time of its own."""
    table, prediction = require_layers(report), _read_prediction(report)
    if report.operators is None:
        raise ValueError(f"the report of {report.name} holds no operators, so no bytes: the model was not traced")
    work = sum_forward_work(report.operators)
    is_measured = "own_forward_seconds" in table[0] or not prediction.label
    if is_measured:
        require_column(report, table, "own_forward_seconds")  # without any times the error says how to measure them
        seconds = {row["path"]: row["own_forward_seconds"] or 0.0 for row in table}
        drawn = work.keys() - find_shared_times(report, work)
    else:
        seconds, drawn = prediction.seconds, set(work)
    points = [
        _Point(row["path"], row["type"], *work[row["path"]], seconds[row["path"]])
        for row in table
        if row["path"] in drawn and seconds.get(row["path"], 0.0) > 0
    ]
    if not points:
        raise ValueError(f"there is nothing to draw of {report.name}: no layer has FLOPs, bytes and a time of its own")
    points.sort(key=lambda point: point.seconds, reverse=True)
    predicted = [
        point._replace(seconds=prediction.seconds[point.path]) for point in points if point.path in prediction.seconds
    ]
    measured = points if is_measured else []
    return _Points(measured, predicted, prediction.label, len(table) - len(points), sum(seconds.values()))


class _Prediction(NamedTuple):
    """The predicted seconds of layers by their paths, none without a prediction, and the kind of these times."""

    seconds: dict[str, float]
    label: str


def _read_prediction(report: Report) -> _Prediction:
    """Return the estimated times of the layers; if no layer has an estimate, the least times that they can take."""
    rows: Any = report["predicted_layers"] if "predicted_layers" in report else None
    if not isinstance(rows, LayerTable):
        return _Prediction({}, "")
    column, label = "bound_seconds", "predicted, at most"
    if any(row["estimate_seconds"] is not None for row in rows):
        column, label = "estimate_seconds", "predicted, an estimate"
    return _Prediction({row["path"]: row[column] for row in rows if row[column]}, label)


# Drawing --------------------------------------------------------------------------------------------------------------


def _list_notes(points: _Points, ceilings: Ceilings | None) -> Iterator[str]:
    """Yield the sentences below the figure."""
    if points.left_out:
        yield f"Not drawn, without known FLOPs, bytes or time of their own: {format_count(points.left_out, 'layer')}."
    if ceilings is None:
        yield (
            "No ceilings were given: Ceilings.measure(report) measures those of this CPU, Ceilings.of_device(name) "
            "has those of a device."
        )
    else:
        above = sum(point.speed > ceilings.roof(point.intensity) for point in points.main)
        if above:
            yield f"Above the ceilings: {format_count(above, 'layer')}; {_explain_above(ceilings)}."
    if not points.measured:
        yield "Nothing was measured: these are predicted times of the layers."


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


def _draw_measured(axis: Any, points: _Points) -> None:
    """Draw the layers in the colors of their types; the types that take least time share grey if colors run out."""
    seconds = Counter[str]()
    for point in points.measured:
        seconds.update({point.type: point.seconds})
    ranked = [kind for kind, _ in seconds.most_common()]
    groups = [({kind}, colour, plain(kind, _LONGEST_NAME)) for kind, colour in zip(ranked, COLOURS, strict=False)]
    others = set(ranked[len(COLOURS) :])
    if others:
        groups.append((others, GREY, "other types"))
    for kinds, colour, label in groups:
        group = [point for point in points.measured if point.type in kinds]
        areas = [_measure_dot(point, points) for point in group]
        _scatter(axis, group, s=areas, color=colour, alpha=0.7, linewidths=0, label=label)


def _measure_dot(point: _Point, points: _Points) -> float:
    """Return the area of the dot of a layer, in square points."""
    return _LEAST_AREA + _AREA_OF_ALL * point.seconds / points.whole


def _draw_predicted(axis: Any, points: _Points) -> None:
    """Draw the predicted times as hollow diamonds."""
    look = {"marker": "D", "s": _DIAMOND_AREA, "facecolors": "none", "edgecolors": "black", "linewidths": 0.9}
    if points.predicted:
        _scatter(axis, points.predicted, label=points.prediction_label, **look)


def _scatter(axis: Any, points: Sequence[_Point], **look: Any) -> None:
    axis.scatter([point.intensity for point in points], [point.speed for point in points], **look)


def _name_slowest(axis: Any, points: _Points, top: int) -> None:
    """Number the slowest layers, and name them in the legend, each with its share of the time of all layers."""
    from matplotlib.patheffects import withStroke

    outline = withStroke(linewidth=2.5, foreground="white")
    for number, point in enumerate(points.main[:top], 1):
        distance = sqrt(_measure_dot(point, points) / pi) + _BESIDE
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
        share = 100 * point.seconds / points.whole
        # A line without points has no mark in the legend, only its text.
        axis.plot([], [], linestyle="none", label=f"{number}  {name}: {share:.3g} % of the time")


def _label_axes(axis: Any, speed: str) -> None:
    """Write the titles and the ticks of the axes, whose limits all that is drawn may have changed."""
    axis.set_xlabel("Arithmetic intensity (FLOPs per byte)")
    axis.set_ylabel(f"{speed[:1].upper()}{speed[1:]}")
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
