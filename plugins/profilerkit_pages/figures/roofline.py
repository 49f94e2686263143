"""Achieved FLOPs per second of each layer against its FLOPs per byte, below the ceilings of the machine.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009 (Communications of
the ACM 52, 4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.arguments.checks import TOP
from profilerkit.count_text import format_count
from profilerkit.piping.quantity import Scale, format_number, scale_value
from profilerkit.trace.layer_table import LayerTable

from ..layer_work import LayerWork, find_shared_times, sum_forward_work
from .canvas import COLOURS, GREY, finish, new_figure, plain
from .ceilings import Ceilings
from .reading import explain_metric, label_layer, one_report, require_column, require_layers

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["roofline"]

#: The place of a number, in points from its dot: dots that lie close together have numbers on different sides.
_PLACES_OF_NUMBERS = ((5, 4), (-12, -11), (5, -11), (-12, 4))
#: The area of a dot, in square points: for a layer without time, and the area added for a layer with all of the time.
_LEAST_AREA, _AREA_OF_ALL = 20, 500
#: The area of a diamond.
_DIAMOND_AREA = 26
#: The longest name of a layer or type in the legend.
_LONGEST_NAME = 28
#: An axis whose end is less than so many times its start has hardly one power of ten.
_NARROW = 30


class Point(NamedTuple):
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


class _Layers(NamedTuple):
    """The layers of a report that can be drawn, the slowest first.

    Attributes:
        measured: The layers at their measured times; empty if nothing was measured.
        predicted: The layers with a predicted time, at this time.
        prediction_label: The kind of the predicted times: "predicted, at most".
        left_out: The number of layers that cannot be drawn: they have no FLOPs, bytes or time of their own.
        whole: The seconds of all layers, also of layers that cannot be drawn; predicted if nothing was measured.
    """

    measured: list[Point]
    predicted: list[Point]
    prediction_label: str
    left_out: int
    whole: float

    @property
    def points(self) -> list[Point]:
        """The points that are numbered and compared with the ceilings."""
        return self.measured or self.predicted


class _Prediction(NamedTuple):
    """The predicted seconds of layers by their paths, none without a prediction, and the kind of these times."""

    seconds: dict[str, float]
    label: str


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
    layers = _read_layers(report)
    figure = new_figure(9.5, 5.6)
    axis = figure.subplots()
    axis.set_xscale("log")
    axis.set_yscale("log")
    if ceilings is not None:
        _draw_ceilings(axis, [*layers.measured, *layers.predicted], ceilings)
    if layers.measured:
        _draw_measured(axis, layers.measured, layers.whole)
    _name_slowest(axis, layers.points, layers.whole, top)
    if layers.predicted:
        _draw_predicted(axis, layers.predicted, layers.prediction_label)
    # The ticks depend on the limits, which all that is drawn above may change.
    _label_ticks(axis.xaxis, axis.get_xlim())
    _label_ticks(axis.yaxis, axis.get_ylim())
    predicted_speed = f"FLOP/s ({layers.prediction_label})"
    axis.set_xlabel("Arithmetic intensity (FLOPs per byte)")
    axis.set_ylabel("Achieved FLOP/s" if layers.measured else predicted_speed)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize="x-small", frameon=False)
    title = "achieved FLOP/s of the layers" if layers.measured else predicted_speed
    times = "layer_times" if layers.measured else "predicted_layers"
    return finish(figure, [report], title, [*_list_notes(layers, ceilings), *explain_metric([report], times)])


def _read_layers(report: Report) -> _Layers:
    """Return the layers to draw; raises `ValueError` if none has FLOPs, bytes and a time of its own."""
    table, prediction = require_layers(report), _read_prediction(report)
    # If there are neither measured nor predicted times, the error says how to get measured times.
    is_measured = "own_forward_seconds" in table[0] or "predicted_layers" not in report
    seconds: Mapping[str, float] = prediction.seconds
    if is_measured:
        require_column(report, table, "own_forward_seconds")
        seconds = {row["path"]: row["own_forward_seconds"] or 0.0 for row in table}
    if report.operators is None:
        raise ValueError(f"the report of {report.name} holds no operators, so no bytes: the model was not traced")
    work = sum_forward_work(report.operators)
    shared = find_shared_times(report, work) if is_measured else set[str]()
    points = _list_points(table, {path: work[path] for path in work if path not in shared}, seconds)
    if not points:
        raise ValueError(f"there is nothing to draw of {report.name}: no layer has FLOPs, bytes and a time of its own")
    predicted = [
        point._replace(seconds=prediction.seconds[point.path]) for point in points if point.path in prediction.seconds
    ]
    left_out, whole = len(table) - len(points), sum(seconds.values())
    return _Layers(points if is_measured else [], predicted, prediction.label, left_out, whole)


def _list_points(table: LayerTable, work: Mapping[str, LayerWork], seconds: Mapping[str, float]) -> list[Point]:
    """Return the layers that have work and a time, the slowest first."""
    points = [
        Point(row["path"], row["type"], *work[row["path"]], seconds[row["path"]])
        for row in table
        if row["path"] in work and seconds.get(row["path"], 0.0) > 0
    ]
    return sorted(points, key=lambda point: point.seconds, reverse=True)


def _read_prediction(report: Report) -> _Prediction:
    """Return the estimated times of the layers; if no layer has an estimate, the least times that they can take."""
    rows: Any = report["predicted_layers"] if "predicted_layers" in report else None
    if not isinstance(rows, LayerTable):
        return _Prediction({}, "")
    if any(row["estimate_seconds"] is not None for row in rows):
        column, label = "estimate_seconds", "predicted, an estimate"
    else:
        column, label = "bound_seconds", "predicted, at most"
    return _Prediction({row["path"]: row[column] for row in rows if row[column]}, label)


def _list_notes(layers: _Layers, ceilings: Ceilings | None) -> Iterator[str]:
    """Yield the sentences below the figure."""
    if layers.left_out:
        yield f"Not drawn, without known FLOPs, bytes or time of their own: {format_count(layers.left_out, 'layer')}."
    if ceilings is None:
        yield (
            "No ceilings were given: Ceilings.measure(report) measures those of this CPU, Ceilings.of_device(name) "
            "has those of a device."
        )
    else:
        above = sum(point.speed > ceilings.roof(point.intensity) for point in layers.points)
        if above:
            yield f"Above the ceilings: {format_count(above, 'layer')}; {_explain_above(ceilings)}."
    if not layers.measured:
        yield "Nothing was measured: these are predicted times of the layers."


def _explain_above(ceilings: Ceilings) -> str:
    """Return why layers may be above the ceilings."""
    if ceilings.cached_bytes_per_second:
        return (
            "something else ran while the ceilings were measured, or they are computed in a better way than that work"
        )
    return "their bytes stay in a cache, or they are computed in a better way than what the ceilings were measured with"


def _draw_ceilings(axis: Any, points: Sequence[Point], ceilings: Ceilings) -> None:
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


def _draw_measured(axis: Any, points: Sequence[Point], whole: float) -> None:
    """Draw the layers in the colors of their types; the types that take least time share grey if colors run out."""
    seconds_by_type: defaultdict[str, float] = defaultdict(float)
    for point in points:
        seconds_by_type[point.type] += point.seconds
    types = sorted(seconds_by_type, key=lambda kind: seconds_by_type[kind], reverse=True)
    groups = [([kind], colour) for kind, colour in zip(types, COLOURS, strict=False)]
    others = types[len(COLOURS) :]
    if others:
        groups.append((others, GREY))
    for kinds, colour in groups:
        group = [point for point in points if point.type in kinds]
        axis.scatter(
            [point.intensity for point in group],
            [point.speed for point in group],
            s=[_LEAST_AREA + _AREA_OF_ALL * point.seconds / whole for point in group],
            color=colour,
            alpha=0.7,
            linewidths=0,
            label=plain(kinds[0], _LONGEST_NAME) if len(kinds) == 1 else "other types",
        )


def _draw_predicted(axis: Any, points: Sequence[Point], label: str) -> None:
    """Draw the predicted times as hollow diamonds."""
    shape = {"marker": "D", "s": _DIAMOND_AREA, "facecolors": "none", "edgecolors": "black", "linewidths": 0.9}
    axis.scatter([point.intensity for point in points], [point.speed for point in points], label=label, **shape)


def _name_slowest(axis: Any, points: Sequence[Point], whole: float, top: int) -> None:
    """Number the slowest layers, and name them in the legend, each with its share of the time of all layers."""
    from matplotlib.patheffects import withStroke

    outline = withStroke(linewidth=2.5, foreground="white")
    for number, point in enumerate(points[:top], 1):
        axis.annotate(
            str(number),
            (point.intensity, point.speed),
            xytext=_PLACES_OF_NUMBERS[number % len(_PLACES_OF_NUMBERS)],
            textcoords="offset points",
            fontsize="small",
            fontweight="bold",
            path_effects=[outline],
        )
        name = plain(label_layer({"path": point.path}), _LONGEST_NAME)
        # A line without points has no mark in the legend, only its text.
        axis.plot([], [], linestyle="none", label=f"{number}  {name}: {100 * point.seconds / whole:.3g} % of the time")


def _label_ticks(axis: Any, limits: tuple[float, float]) -> None:
    """Label the powers of ten of a logarithmic axis; if hardly one is within the limits, ticks between them too."""
    start, end = limits
    axis.set_major_formatter(lambda value, _: str(scale_value(value, "", Scale.SI)))
    axis.set_minor_formatter(_label_between if end < _NARROW * start else lambda value, _: "")


def _label_between(value: float, _: Any) -> str:
    """Return the label of a tick between powers of ten: only twice and five times a power have one."""
    first_digit = f"{value:e}"[0]
    return str(scale_value(value, "", Scale.SI)) if first_digit in "25" else ""
