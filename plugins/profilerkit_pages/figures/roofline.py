"""Achieved FLOPs per second of each layer against its FLOPs per byte, below the ceilings of the machine.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009 (Communications of
the ACM 52, 4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.arguments.checks import TOP
from profilerkit.piping.quantity import Scale, format_number, scale_value
from profilerkit.trace.layer_table import LayerTable

from ..layer_work import sum_forward_work
from .canvas import (
    COLOURS,
    GREY,
    finish,
    format_count,
    label_layer,
    new_figure,
    one_report,
    plain,
    require_column,
    require_layers,
)
from .ceilings import Ceilings

if TYPE_CHECKING:
    from profilerkit.results.report import Report

__all__ = ["roofline"]


#: Where a number stands, in points from its dot: dots that lie close together have theirs on different sides.
_AROUND = ((5, 4), (-12, -11), (5, -11), (-12, 4))


class Point(NamedTuple):
    """The path and type of a layer, and its own work in a forward pass, without the layers inside."""

    path: str
    type: str
    flops: int
    bytes: int
    seconds: float

    @property
    def intensity(self) -> float:
        """FLOPs for each byte that is read or written."""
        return self.flops / self.bytes

    @property
    def speed(self) -> float:
        """FLOPs per second."""
        return self.flops / self.seconds


def roofline(report: Report, ceilings: Ceilings | None = None, top: int = 5) -> Any:
    """Return a figure with a dot for each layer: FLOPs per second of its own forward time against FLOPs per byte.

    Layers with a predicted time (`profilerkit.profile` with ``on=``) have a hollow diamond where that puts them. A
    report without measured times has these alone, and the figure says that nothing was measured.

    The bytes are those that its operators read and write in the trace. Data that stays in a cache counts too, so a
    layer may be above the line of the memory. The area of a dot grows with the time of the layer.

    Args:
        report: The report of one model, with operators and ``layer_times`` or ``predicted_layers``.
        ceilings: The ceilings of the machine that it ran on, such as ``Ceilings.measure(report)`` for this CPU.
            Without them no ceiling is drawn.
        top: The number of layers that are numbered and named: those that take the most time.

    Raises:
        ValueError: the report has no operators or no times of layers, or no layer has FLOPs, bytes and a time.
        ImportError: matplotlib is missing.
    """
    top = TOP("top", top)
    report = one_report(report, "roofline")
    is_measured = _is_measured(report)
    predicted, kind = _read_predicted(report)
    points, left_out = _list_points(report, predicted, is_measured)
    expected = [point._replace(seconds=predicted[point.path]) for point in points if point.path in predicted]
    figure = new_figure(9.5, 5.6)
    axis = figure.subplots()
    axis.set_xscale("log")
    axis.set_yscale("log")
    if ceilings is not None:
        _draw_ceilings(axis, [*points, *expected], ceilings)
    if is_measured:
        _draw_types(axis, points)
    _name_slowest(axis, points, top)
    _draw_predicted(axis, expected, kind)
    for side, (start, end) in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
        side.set_major_formatter(lambda value, _: str(scale_value(value, "", Scale.SI)))
        few = end < 30 * start  # one power of ten or none is within
        side.set_minor_formatter(_label_between if few else lambda value, _: "")
    axis.set_xlabel("Arithmetic intensity (FLOPs per byte)")
    speed = "Achieved FLOP/s" if is_measured else f"FLOP/s ({kind})"
    axis.set_ylabel(speed)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize="x-small", frameon=False)
    notes = [
        f"Not drawn, without FLOPs, bytes or time of their own: {format_count(left_out, 'layer')}." if left_out else "",
        _describe_above(points, ceilings)
        if ceilings
        else "No ceilings were given: Ceilings.measure(report) measures those of this CPU, Ceilings.of_device(name) "
        "has those of a device.",
    ]
    notes += [] if is_measured else ["Nothing was measured: these are predicted times of the layers."]
    return finish(figure, [report], f"{speed[0].lower()}{speed[1:]} of the layers" if is_measured else speed, notes)


def _is_measured(report: Report) -> bool:
    """Return whether the report has measured times of layers, or nothing else that could be drawn."""
    return "own_forward_seconds" in require_layers(report)[0] or "predicted_layers" not in report


def _read_predicted(report: Report) -> tuple[dict[str, float], str]:
    """Return the predicted seconds of the layers by path, and of which kind they are; empty without a prediction."""
    rows: Any = report["predicted_layers"] if "predicted_layers" in report else None
    if not isinstance(rows, LayerTable):
        return {}, ""
    is_estimate = any(row["estimate_seconds"] is not None for row in rows)
    column = "estimate_seconds" if is_estimate else "bound_seconds"
    seconds = {row["path"]: row[column] for row in rows if row[column]}
    return seconds, "predicted, an estimate" if is_estimate else "predicted, at most"


def _draw_predicted(axis: Any, points: Sequence[Point], kind: str) -> None:
    if points:
        speeds = [point.speed for point in points]
        shown = {"marker": "D", "s": 26, "facecolors": "none", "edgecolors": "black", "linewidths": 0.9}
        axis.scatter([point.intensity for point in points], speeds, label=kind, **shown)


def _list_points(report: Report, predicted: Mapping[str, float], is_measured: bool) -> tuple[list[Point], int]:
    """Return the layers that can be drawn, the slowest first, and the number of those that cannot."""
    layers = require_layers(report)
    if is_measured:
        require_column(report, layers, "own_forward_seconds")
    if report.operators is None:
        raise ValueError(f"the report of {report.name} holds no operators, so no bytes: the model was not traced")
    work = sum_forward_work(report.operators)
    points = [
        Point(row["path"], row["type"], *work[row["path"]], seconds)
        for row in layers
        if row["path"] in work and (seconds := row.get("own_forward_seconds", predicted.get(row["path"])) or 0) > 0
    ]
    if not points:
        raise ValueError(f"there is nothing to draw of {report.name}: no layer has FLOPs, bytes and a time of its own")
    return sorted(points, key=lambda point: -point.seconds), len(layers) - len(points)


def _label_between(value: float, _: Any) -> str:
    """Return the label of a tick between powers of ten: only twice and five times a power have one."""
    return str(scale_value(value, "", Scale.SI)) if f"{value:e}"[0] in "25" else ""


def _describe_above(points: Sequence[Point], ceilings: Ceilings) -> str:
    """Return a sentence with the number of layers above the ceilings, and the reason; empty if there are none."""
    above = sum(point.speed > ceilings.roof(point.intensity) for point in points)
    why = "their bytes stay in a cache, or they are computed in a better way than what the ceilings were measured with"
    if ceilings.cached_bytes_per_second:
        why = "something else ran while the ceilings were measured, or they are computed in a better way than that work"
    return f"Above the ceilings: {format_count(above, 'layer')}; {why}." if above else ""


def _draw_ceilings(axis: Any, points: Sequence[Point], ceilings: Ceilings) -> None:
    ridge, peak = ceilings.ridge, ceilings.flops_per_second
    start = min(ridge, *(point.intensity for point in points)) / 3
    end = max(ridge, *(point.intensity for point in points)) * 3
    axis.plot([start, ridge, end], [start * ceilings.bytes_per_second, peak, peak], color="black", linewidth=1.2)
    bandwidth = scale_value(ceilings.bytes_per_second, "B/s", Scale.SI)
    label = (
        f"{scale_value(peak, 'FLOP/s', Scale.SI)} and {bandwidth},\nmeeting at {format_number(ridge)} FLOPs per byte"
    )
    axis.plot([], [], color="black", linewidth=1.2, label=label)
    if ceilings.cached_bytes_per_second:
        cached, bend = ceilings.cached_bytes_per_second, peak / ceilings.cached_bytes_per_second
        start = min(start, bend / 3)
        dashed = {"color": "black", "linewidth": 1, "linestyle": "--"}
        named = f"{scale_value(cached, 'B/s', Scale.SI)} in caches"
        axis.plot([start, bend], [start * cached, peak], label=named, **dashed)
        axis.plot([bend, ridge], [peak, peak], **dashed)
    axis.set_xlim(start, end)


def _draw_types(axis: Any, points: Sequence[Point]) -> None:
    whole = sum(point.seconds for point in points)
    spent: Counter[str] = Counter()
    for point in points:
        spent[point.type] += point.seconds  # type: ignore[assignment]
    ranked = [kind for kind, _ in spent.most_common()]
    groups = [*zip(([kind] for kind in ranked), COLOURS, strict=False), (ranked[len(COLOURS) :], GREY)]
    for kinds, colour in groups:
        group = [point for point in points if point.type in kinds]
        if group:
            axis.scatter(
                [point.intensity for point in group],
                [point.speed for point in group],
                s=[20 + 500 * point.seconds / whole for point in group],
                color=colour,
                alpha=0.7,
                linewidths=0,
                label=plain(kinds[0], 28) if len(kinds) == 1 else "other types",
            )


def _name_slowest(axis: Any, points: Sequence[Point], top: int) -> None:
    from matplotlib.patheffects import withStroke

    outline = withStroke(linewidth=2.5, foreground="white")
    whole = sum(point.seconds for point in points)
    for number, point in enumerate(points[:top], 1):
        named = (
            f"{number}  {plain(label_layer({'path': point.path}), 28)}: {100 * point.seconds / whole:.3g} % of the time"
        )
        axis.annotate(
            str(number),
            (point.intensity, point.speed),
            xytext=_AROUND[number % len(_AROUND)],
            textcoords="offset points",
            fontsize="small",
            fontweight="bold",
            path_effects=[outline],
        )
        axis.plot([], [], linestyle="none", label=named)
