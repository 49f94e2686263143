"""The points of a roofline: the layers of a report that have FLOPs, bytes and a time of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.trace.layer_table import LayerTable

from ..layer_work import find_shared_times, sum_forward_work
from .reading import require_column, require_layers

if TYPE_CHECKING:
    from profilerkit.results.report import Report


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


class Points(NamedTuple):
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
    def main(self) -> list[Point]:
        """The points that are numbered and compared with the ceilings."""
        return self.measured or self.predicted


def read_points(report: Report) -> Points:
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
        Point(row["path"], row["type"], *work[row["path"]], seconds[row["path"]])
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
    return Points(measured, predicted, prediction.label, len(table) - len(points), sum(seconds.values()))


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
