"""The FLOPs that each layer achieves in a second against its FLOPs for each byte, below the machine's ceilings.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009 (Communications of
the ACM 52, 4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..quantity import Scale, format_number, scale_value
from .canvas import COLOURS, GREY, finished, label_of, layers_of, new_figure, one_report, plain, require_column
from .ceilings import Ceilings

if TYPE_CHECKING:
    from ..report import Report

__all__ = ["roofline"]


class Point(NamedTuple):
    """A layer: what it is, and what it does itself in a forward pass, without the layers inside."""

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
        """FLOPs in a second."""
        return self.flops / self.seconds


def roofline(report: Report, ceilings: Ceilings | None = None, top: int = 5) -> Any:
    """Return a dot for each layer: the FLOPs in a second of its own forward time against its FLOPs for each byte.

    The bytes are those that its operators read and write, as the trace counts them; what stays in a cache is counted
    too, so a layer may lie above the slope of the memory. A dot's area grows with the time of the layer.

    Args:
        report: The report of one model, with operators and ``layer_times``.
        ceilings: Those of the machine that it ran on, `Ceilings.measured` for this CPU; without them there is no roof.
        top: How many layers, those that take the most time, are numbered and named.

    Raises:
        ValueError: the report lacks the operators or the times of layers, or no layer has FLOPs, bytes and a time.
        ImportError: matplotlib is missing.
    """
    report = one_report(report, "roofline")
    points, left_out = _points(report)
    figure = new_figure(8.5, 5.6)
    axis = figure.subplots()
    axis.set_xscale("log")
    axis.set_yscale("log")
    if ceilings is not None:
        _draw_ceilings(axis, points, ceilings)
    _draw_points(axis, points, top)
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(lambda value, _: str(scale_value(value, "", Scale.SI)))
        each.set_minor_formatter(lambda value, _: "")
    axis.set_xlabel("Arithmetic intensity (FLOPs per byte)")
    axis.set_ylabel("Achieved FLOP/s")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize="x-small", frameon=False)
    notes = [
        f"{left_out} layers without FLOPs, bytes or time of their own are not drawn." if left_out else "",
        "" if ceilings else "No ceilings were given; Ceilings.measured() has those of this machine's CPU.",
    ]
    return finished(figure, f"{report.name}: achieved FLOP/s of the layers", notes)


def _points(report: Report) -> tuple[list[Point], int]:
    """Return the layers that can be drawn, most time first, and how many cannot."""
    layers = layers_of(report)
    require_column(report, layers, "own_forward_seconds")
    if report.operators is None:
        raise ValueError(f"the report of {report.name} holds no operators, so no bytes: the model was not traced")
    flops: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for op in report.operators:
        if op.get("phase", "forward") == "forward":
            flops[op["layer"]] += op["flops"]
            moved[op["layer"]] += op["bytes_read"] + op["bytes_written"]
    points = [
        Point(row["path"], row["type"], flops[row["path"]], moved[row["path"]], row["own_forward_seconds"])
        for row in layers
        if flops[row["path"]] and moved[row["path"]] and (row["own_forward_seconds"] or 0) > 0
    ]
    if not points:
        raise ValueError(f"there is nothing to draw of {report.name}: no layer has FLOPs, bytes and a time of its own")
    return sorted(points, key=lambda point: -point.seconds), len(layers) - len(points)


def _draw_ceilings(axis: Any, points: Sequence[Point], ceilings: Ceilings) -> None:
    ridge, peak = ceilings.ridge, ceilings.flops_per_second
    start = min(ridge, *(point.intensity for point in points)) / 3
    end = max(ridge, *(point.intensity for point in points)) * 3
    axis.plot([start, ridge, end], [start * ceilings.bytes_per_second, peak, peak], color="black", linewidth=1.2)
    bandwidth = scale_value(ceilings.bytes_per_second, "B/s", Scale.SI)
    said = f"{scale_value(peak, 'FLOP/s', Scale.SI)} from {format_number(ridge)} FLOPs per byte; {bandwidth} below"
    axis.plot([], [], color="black", linewidth=1.2, label=f"ceilings: {said}".replace(" from", "\nfrom").replace("; ", ";\n"))
    axis.set_xlim(start, end)


def _draw_points(axis: Any, points: Sequence[Point], top: int) -> None:
    whole = sum(point.seconds for point in points)
    spent: Counter[str] = Counter()
    for point in points:
        spent[point.type] += point.seconds  # type: ignore[assignment]
    ranked = [kind for kind, _ in spent.most_common()]
    groups = [*zip(([kind] for kind in ranked), COLOURS, strict=False), (ranked[len(COLOURS) :], GREY)]
    for kinds, colour in groups:
        chosen = [point for point in points if point.type in kinds]
        if chosen:
            axis.scatter(
                [point.intensity for point in chosen],
                [point.speed for point in chosen],
                s=[20 + 500 * point.seconds / whole for point in chosen],
                color=colour,
                alpha=0.7,
                linewidths=0,
                label=plain(kinds[0], 28) if len(kinds) == 1 else "other types",
            )
    for place, point in enumerate(points[:top], 1):
        named = f"{place}  {plain(label_of({'path': point.path}), 32)}: {100 * point.seconds / whole:.3g} % of the time"
        axis.annotate(str(place), (point.intensity, point.speed), fontsize="small", ha="center", va="center")
        axis.plot([], [], linestyle="none", label=named)
