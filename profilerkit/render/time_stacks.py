"""The measured times of a report as stacks of frames, which both forms for trace viewers are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ..foreign_text import visible
from ..results.report import Report
from ..trace.columns import WORK
from ..trace.layer_paths import count_depth, nearest_around
from ..trace.layer_table import is_by_layer
from ..trace.rows import read_work
from ..trace.table import Table
from .grids import list_records
from .values import write_row_value

__all__ = ["Frame", "find_rows", "name_frame", "read_seconds", "stack_frames"]

_PHASES = ("forward", "backward")


@dataclass
class Frame:
    """A layer or an operator with its own seconds, and the layers and operators inside it.

    Attributes:
        facts: Further numbers about it.
        seconds: Its seconds, with everything inside it.
    """

    name: str
    own_seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    inside: list[Frame] = field(default_factory=list)
    seconds: float = 0.0


def stack_frames(report: Report) -> dict[str, list[Frame]]:
    """Return the outermost frames by the name of a track, such as "layers, forward"; only tracks that have times.

    Seconds are medians over the passes. Layers are in the order of the model and have their own times; a time below
    zero, which is left where the overhead of measuring was taken out, is zero. Operators lie in their layers, in the
    order in which they ran first.
    """
    tracks = {}
    for phase in _PHASES:
        tracks[f"layers, {phase}"] = _stack_layers(report, phase)
    for phase in _PHASES:
        tracks[f"operators, {phase}"] = _stack_operators(report, phase)
    return {name: frames for name, frames in tracks.items() if frames}


def name_frame(path: str, kind: str = "") -> str:
    """Return the name of a layer's frame: the layer's path, with its type."""
    return visible(f"{path or '(model)'} ({kind})" if kind else path or "(model)")


def find_rows(report: Report, *columns: str) -> Iterable[Mapping[str, Any]]:
    """Return the rows of the longest table of a report that has these columns, whatever its metric is called.

    A row in which the name of an operator, a layer or a phase is no text is left out.
    """
    tables = [record.value for record in list_records(report, Table)]
    fitting = [table for table in tables if set(columns) <= set(table.columns)]
    longest = max((table for table in fitting if "path" not in columns or is_by_layer(table)), key=len, default=())
    names = [column for column in columns if column in ("operator", "layer", "phase")]
    return [row for row in longest if all(isinstance(row[name], str) for name in names)]


def read_seconds(value: Any) -> float | None:
    """Return the seconds of a cell, at least 0; None for a cell without a number."""
    if not isinstance(value, Real) or not math.isfinite(value):
        return None
    return max(float(value), 0.0)


def _stack_layers(report: Report, phase: str) -> list[Frame]:
    counts = {row["path"]: row for row in report.layers or ()}
    frames: dict[str, Frame] = {}
    column = f"own_{phase}_seconds"
    for row in find_rows(report, "path", column):
        path, seconds = row["path"], read_seconds(row.get(column))
        if seconds is not None:
            facts: dict[str, Any] = {name: _write_count(counts.get(path, {}), name) for name in ("params", *WORK)}
            facts |= {name: row.get(name) for name in ("calls", "missing")}
            frames[path] = Frame(name_frame(path, row.get("type", "")), seconds, _select_facts(facts))
    return _nest(frames)


def _stack_operators(report: Report, phase: str) -> list[Frame]:
    frames: dict[str, Frame] = {}
    rows = find_rows(report, "operator", "layer", "phase", "seconds")
    for row in sorted(rows, key=lambda row: read_seconds(row.get("order")) or 0):  # a table has the slowest first
        seconds = read_seconds(row.get("seconds"))
        if seconds is None or row.get("phase") != phase:
            continue
        layer = frames.setdefault(row["layer"], Frame(name_frame(row["layer"]), 0.0))
        facts = {name: read_work(row, name) for name in ("calls", *WORK, "missing")}
        layer.inside.append(Frame(visible(row["operator"]), seconds, _select_facts(facts), seconds=seconds))
    return _nest(frames)


def _write_count(row: Mapping[str, Any], column: str) -> Any:
    """Return a count of a layer; of one that is known by its bounds a text, with the sign before it: "≥ 128"."""
    sign, count = write_row_value(row, column)
    return f"{sign}{count}" if sign else count


def _select_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: visible(value) if isinstance(value, str) else value for name, value in facts.items() if value}


def _nest(frames: Mapping[str, Frame]) -> list[Frame]:
    """Put each frame into the frame of the nearest layer around it, and add up the seconds; return the outermost."""
    around = nearest_around(frames)
    for frame in frames.values():
        frame.seconds = frame.own_seconds + sum(operator.seconds for operator in frame.inside)
    for path in sorted(frames, key=count_depth, reverse=True):  # the innermost first, so that sums are whole
        outer = around[path]
        if outer is not None:
            frames[outer].seconds += frames[path].seconds
    outermost: list[Frame] = []
    for path, outer in around.items():
        siblings = outermost if outer is None else frames[outer].inside
        siblings.append(frames[path])
    return outermost
