"""The measured times of layers and operators as a Chrome trace, for Perfetto and chrome://tracing.

The format is the JSON object form of Google's Trace Event Format; ``ts`` and ``dur`` are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..foreign_text import visible
from ..results.comparison import Comparison
from ..results.report import Report
from .time_stacks import Frame, stack_frames

__all__ = ["MICROSECONDS", "name_event", "render"]

#: The unit of times in the format, of which a second has so many.
MICROSECONDS = 1e6


def render(result: Report | Comparison) -> str:
    """Return JSON with a process for each model and a thread for each track: layers and operators, by phase.

    It is not a recording: the layers are laid out one after another in the order of the model, each as long as its
    median over the passes, the layers inside it first and its own time behind them. A report without times of layers
    or operators has a process without slices, whose label says so.
    """
    events: list[dict[str, Any]] = []
    for process, report in enumerate(result.reports, start=1):
        tracks = stack_frames(report)
        events.append(name_event("process_name", process, 0, visible(report.name)))
        if not tracks:
            events.append(name_event("process_labels", process, 0, "no times of layers or operators were measured"))
        for thread, (track, frames) in enumerate(tracks.items(), start=1):
            events.append(name_event("thread_name", process, thread, track))
            events += _list_slices(frames, process, thread, track)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"exporter": "profilerkit"}})


def name_event(kind: str, process: int, thread: int, value: str) -> dict[str, Any]:
    """Return the event that names a process or a thread, or labels a process."""
    argument = "labels" if kind == "process_labels" else "name"
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": {argument: value}}


def _list_slices(outermost: Sequence[Frame], process: int, thread: int, track: str) -> Iterator[dict[str, Any]]:
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
            "ts": start * MICROSECONDS,
            "dur": frame.seconds * MICROSECONDS,
            "args": {**frame.facts, "own_seconds": frame.own_seconds},
        }
        waiting += _lay_out(frame.inside, start)


def _lay_out(frames: Sequence[Frame], start: float) -> list[tuple[float, Frame]]:
    """Return the frames with the second that each begins at, the last one first."""
    begins = []
    for frame in frames:
        begins.append((start, frame))
        start += frame.seconds
    return begins[::-1]
