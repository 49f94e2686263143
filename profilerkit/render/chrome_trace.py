"""The measured times of layers and operators as a Chrome trace, for Perfetto, chrome://tracing and speedscope.

The format is the JSON object form of Google's Trace Event Format; ``ts`` and ``dur`` are microseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ..foreign_text import visible
from ..results.comparison import Comparison
from ..results.report import Report
from ..trace.columns import WORK
from ..trace.layer_paths import count_depth, nearest_around
from ..trace.layer_table import is_by_layer
from ..trace.rows import read_work
from ..trace.table import Table
from .grids import list_records
from .values import write_row_value

__all__ = ["find_rows", "read_seconds", "render"]

_PHASES = ("forward", "backward")
#: The unit of times in the format, of which a second has so many.
_MICROSECONDS = 1e6


def render(result: Report | Comparison) -> str:
    """Return JSON with a process for each model and a thread for each track: layers and operators, by phase.

    It is not a recording: the layers are laid out one after another in the order of the model, each as long as its
    median over the passes, the layers inside it first and its own time behind them. A report without times of layers
    or operators has a process without slices, whose label says so.
    """
    events: list[dict[str, Any]] = []
    for process, report in enumerate(result.reports, start=1):
        tracks = _stack_frames(report)
        events.append(_name_event("process_name", process, 0, visible(report.name)))
        if not tracks:
            events.append(_name_event("process_labels", process, 0, "no times of layers or operators were measured"))
        for thread, (track, frames) in enumerate(tracks.items(), start=1):
            events.append(_name_event("thread_name", process, thread, track))
            events += _list_slices(frames, process, thread, track)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"exporter": "profilerkit"}})


def _name_event(kind: str, process: int, thread: int, value: str) -> dict[str, Any]:
    """Return the event that names a process or a thread, or labels a process."""
    argument = "labels" if kind == "process_labels" else "name"
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": {argument: value}}


def _list_slices(outermost: Sequence[_Frame], process: int, thread: int, track: str) -> Iterator[dict[str, Any]]:
    """Yield a complete event ("X") for each frame; models may be nested to any depth."""
    waiting = _lay_out(outermost, 0.0)
    while waiting:
        start, frame = waiting.pop()
        yield {
            "ph": "X",
            "name": frame.name,
            "cat": track,
            "pid": process,
            "tid": thread,
            "ts": start * _MICROSECONDS,
            "dur": frame.seconds * _MICROSECONDS,
            "args": {**frame.facts, "own_seconds": frame.own_seconds},
        }
        waiting += _lay_out(frame.inside, start)


def _lay_out(frames: Sequence[_Frame], start: float) -> list[tuple[float, _Frame]]:
    """Return the frames with the second that each begins at, the last one first."""
    begins = []
    for frame in frames:
        begins.append((start, frame))
        start += frame.seconds
    return begins[::-1]


# Times as frames ------------------------------------------------------------------------------------------------------


@dataclass
class _Frame:
    """A layer or an operator with its own seconds, and the layers and operators inside it.

    Attributes:
        facts: Further numbers about it.
        seconds: Its seconds, with everything inside it.
    """

    name: str
    own_seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    inside: list[_Frame] = field(default_factory=list)
    seconds: float = 0.0


def _stack_frames(report: Report) -> dict[str, list[_Frame]]:
    """Return the outermost frames by the name of a track, such as "layers, forward"; only tracks that have times.

    Seconds are medians over the passes. Layers are in the order of the model and have their own times; a time below
    zero, which is left where the overhead of measuring was taken out, is zero. Operators lie in their layers, in the
    order in which they ran first.
    """
    tracks = {f"layers, {phase}": _stack_layers(report, phase) for phase in _PHASES}
    tracks |= {f"operators, {phase}": _stack_operators(report, phase) for phase in _PHASES}
    return {name: frames for name, frames in tracks.items() if frames}


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


def _stack_layers(report: Report, phase: str) -> list[_Frame]:
    counts = {row["path"]: row for row in report.layers or ()}
    frames: dict[str, _Frame] = {}
    column = f"own_{phase}_seconds"
    for row in find_rows(report, "path", column):
        path, seconds = row["path"], read_seconds(row.get(column))
        if seconds is not None:
            facts: dict[str, Any] = {name: _write_count(counts.get(path, {}), name) for name in ("params", *WORK)}
            facts |= {name: row.get(name) for name in ("calls", "missing")}
            frames[path] = _Frame(_name_layer(path, row.get("type", "")), seconds, _select_facts(facts))
    return _nest(frames)


def _stack_operators(report: Report, phase: str) -> list[_Frame]:
    frames: dict[str, _Frame] = {}
    rows = find_rows(report, "operator", "layer", "phase", "seconds")
    for row in sorted(rows, key=lambda row: read_seconds(row.get("order")) or 0):  # a table has the slowest first
        seconds = read_seconds(row.get("seconds"))
        if seconds is None or row.get("phase") != phase:
            continue
        layer = frames.setdefault(row["layer"], _Frame(_name_layer(row["layer"]), 0.0))
        facts = {name: read_work(row, name) for name in ("calls", *WORK, "missing")}
        layer.inside.append(_Frame(visible(row["operator"]), seconds, _select_facts(facts), seconds=seconds))
    return _nest(frames)


def _name_layer(path: str, kind: str = "") -> str:
    """Return the name of a layer's frame: the layer's path, with its type."""
    return visible(f"{path or '(model)'} ({kind})" if kind else path or "(model)")


def _write_count(row: Mapping[str, Any], column: str) -> Any:
    """Return a count of a layer; of one that is known by its bounds a text, with the sign before it: "≥ 128"."""
    sign, count = write_row_value(row, column)
    return f"{sign}{count}" if sign else count


def _select_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: visible(value) if isinstance(value, str) else value for name, value in facts.items() if value}


def _nest(frames: Mapping[str, _Frame]) -> list[_Frame]:
    """Put each frame into the frame of the nearest layer around it, and add up the seconds; return the outermost."""
    around = nearest_around(frames)
    for frame in frames.values():
        frame.seconds = frame.own_seconds + sum(operator.seconds for operator in frame.inside)
    for path in sorted(frames, key=count_depth, reverse=True):  # the innermost first, so that sums are whole
        outer = around[path]
        if outer is not None:
            frames[outer].seconds += frames[path].seconds
    outermost: list[_Frame] = []
    for path, outer in around.items():
        siblings = outermost if outer is None else frames[outer].inside
        siblings.append(frames[path])
    return outermost
