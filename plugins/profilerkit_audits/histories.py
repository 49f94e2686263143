"""History: the values of a metric of a model over commits, versions and machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import msgspec

from profilerkit.errors import ArgumentError, by_likeness
from profilerkit.render.grids import Grid

from .lookup import find_rows, open_store
from .origins import shorten_commit, shorten_moment
from .rows import Row, Value
from .series import CaseName, find_causes, group_by_case, is_exact, is_same
from .store import Store


@dataclass(frozen=True)
class Point:
    """One measurement: the row, the value, and other changes since the point before.

    ``moved`` says whether an exact value differs from the last value before, in its number or in its completeness;
    None for the first, and for a value that was measured or is missing.
    """

    row: Row
    value: Value
    causes: tuple[str, ...] = ()
    moved: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the point as values that JSON holds."""
        names = ("created", "run", "commit", "machine", "attempt", "status", "versions", "flags")
        about = {name: getattr(self.row, name) for name in names}
        about |= {**msgspec.structs.asdict(self.value), "causes": self.causes, "moved": self.moved}
        content: dict[str, Any] = msgspec.to_builtins(about)
        return content


@dataclass(frozen=True)
class History:
    """The points of one case, the oldest first."""

    case: CaseName
    metric: str
    points: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the history as values that JSON holds."""
        points = [point.to_dict() for point in self.points]
        return {"spec": self.case.spec, "settings": self.case.settings, "metric": self.metric, "points": points}

    def grid(self) -> Grid:
        """Return the history as a table."""
        titles = ("Measured", "Commit", "Machine", self.metric, "", "Changed since the point before")
        values = [point.value for point in self.points if point.value.value is not None]
        texts = {value.digits: value.text for value in values if is_exact(self.metric, value)}
        in_full = len(set(texts.values())) < len(texts)  # two different values have the same text
        rows = tuple(_list_cells(point, in_full) for point in self.points)
        return Grid(str(self.case), titles, rows, numeric=frozenset({3}))


def _list_cells(point: Point, in_full: bool) -> tuple[str, ...]:
    """Return the cells of a point, in the order of the titles of `History.grid`."""
    row, value = point.row, point.value
    if value.value is None:
        shown, mark = "-", value.completeness.value
    else:
        shown, mark = value.digits if in_full else value.text, "changed" if point.moved else ""
    flags = [f"not plausible: {flag}" for flag in row.flags]
    return (
        shorten_moment(row.created, 16),
        shorten_commit(row.commit, 10) or "-",
        row.machine[:8] or "-",
        shown,
        mark,
        "; ".join([*point.causes, *flags]),
    )


def history(store: Store | str | PathLike[str], model: str, metric: str) -> list[History]:
    """Return the histories of a metric of a model: a history for each measured setting.

    Each measurement is one point, in the order of time, even if several runs reuse it; a row that failed is a point
    without a value. Times of several machines are in one history, and each point names its machine.

    Args:
        store: A store, or its URL or path.
        model: The text of a model, a pattern of texts, or the name of a model in its report.
        metric: The metric.

    Raises `ArgumentError` for a model or a metric that the store has not, with the nearest names.
    """
    with open_store(store) as opened:
        rows = find_rows(opened, model)
    metrics = {name for row in rows for name in row.values}
    if metric not in metrics:
        nearest = ", ".join(by_likeness(metric, metrics)[:5]) or "none"
        raise ArgumentError(f"{model!r} has no metric {metric!r} in the store; the nearest are: {nearest}")
    series = {case: [row for row in rows if metric in row.values] for case, rows in group_by_case(rows).items()}
    return [History(case, metric, _make_points(metric, rows)) for case, rows in series.items() if rows]


def _make_points(metric: str, rows: Sequence[Row]) -> tuple[Point, ...]:
    """Return a point for each row; an exact value is compared with the last value, and a row with the row before."""
    points: list[Point] = []
    last: Value | None = None
    for row in rows:
        value = row.values[metric]
        moved = None
        if value.value is not None and is_exact(metric, value):
            moved = None if last is None else not is_same(last, value)
            last = value
        causes = find_causes(points[-1].row, row) if points else ()
        points.append(Point(row, value, causes, moved))
    return tuple(points)
