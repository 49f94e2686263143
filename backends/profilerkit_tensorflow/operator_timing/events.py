"""The events of TensorFlow's profiler: the stretches of time in which a kernel ran, and the passes that were marked.

The records of the profiler, as observed with TensorFlow 2.21:

- The executor records one event for each kernel it runs, ``name of the node:type of the operator``, on the line of
  the thread that ran it. The executor's own events (``ExecutorState::Process``, ``FunctionRun``, ``EagerExecute``,
  ...) lie around and between kernels and are not counted. The threads inside a parallel kernel record no kernel events:
  the kernel's event lasts until they are done. The time of a kernel that runs other kernels on its own thread
  (``tf.py_function``, a called function that was not inlined) is counted without theirs.
- Constants, placeholders, identities that were pruned and the switches of loops record nothing.
- Functions that XLA compiled record nothing under a node's name, and neither do eager operators.
- The session sees the whole process: run nothing else of TensorFlow meanwhile, a ``tf.data`` pipeline for example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["PASS_MARK", "Profile", "Stretch", "Window", "read_profile"]

#: The beginning of the name of a pass's event; the number of the pass follows.
PASS_MARK = "profilerkit_pass_"
_PASS_NAME = re.compile(rf"{PASS_MARK}(\d+)")
_KERNEL = re.compile(r"(?P<node>[A-Za-z0-9.][\w.\\/>-]*):(?P<type>[A-Za-z_]\w*)")


class Window(NamedTuple):
    """The time of one pass: picoseconds since the epoch."""

    start: int
    end: int


class Stretch(NamedTuple):
    """A stretch of time in which a thread or device stream ran the kernel of a node: picoseconds since the epoch.

    ``runs`` is 1 for the stretch with which a run of the kernel ends, 0 for one before a kernel inside it.
    """

    start: int
    end: int
    node: str
    op_type: str
    runs: int


@dataclass
class Profile:
    """The passes and kernels of a profile.

    Attributes:
        windows: The time of each pass, by its number.
        host: The kernels on threads of the CPU.
        device: The kernels on streams of a GPU.
    """

    windows: dict[int, Window] = field(default_factory=dict)
    host: list[Stretch] = field(default_factory=list)
    device: list[Stretch] = field(default_factory=list)


class _Event(NamedTuple):
    """An event on a line of a profile, whose name was looked for."""

    start: int
    end: int
    name: re.Match[str]


def read_profile(space: Any) -> Profile:
    """Return the passes and kernels of a profile that TensorFlow has written, an XSpace."""
    profile = Profile()
    for plane in space.planes:
        if plane.name.startswith("/device:GPU"):
            profile.device += _list_device_stretches(plane)
            continue
        kernels, steps = _match_names(plane, _KERNEL), _match_names(plane, _PASS_NAME)
        for line in plane.lines:
            profile.host += _cut_into_stretches(_list_events(line, kernels))
            for step in _list_events(line, steps):
                profile.windows[int(step.name[1])] = Window(step.start, step.end)
    return profile


def _match_names(plane: Any, pattern: re.Pattern[str]) -> dict[int, re.Match[str]]:
    """Return the names of a plane's events that match a pattern, by the number of the name."""
    matches = ((key, pattern.fullmatch(metadata.name)) for key, metadata in plane.event_metadata.items())
    return {key: matched for key, matched in matches if matched}


def _list_events(line: Any, names: Mapping[int, re.Match[str]]) -> list[_Event]:
    """Return a line's events with these names, outer events before the events inside them."""
    origin = line.timestamp_ns * 1000
    events = []
    for event in line.events:
        if event.metadata_id in names:
            start = origin + event.offset_ps
            events.append(_Event(start, start + event.duration_ps, names[event.metadata_id]))
    return sorted(events, key=lambda event: (event.start, -event.end))


def _cut_into_stretches(events: Iterable[_Event]) -> Iterator[Stretch]:
    """Cut the kernels of one thread, which may be nested, into stretches that belong to the innermost."""
    running: list[_Event] = []
    reached = 0

    def end_until(time: float) -> Iterator[Stretch]:
        nonlocal reached
        while running and running[-1].end <= time:
            done = running.pop()
            yield _make_stretch(reached, done.end, done, runs=1)
            reached = done.end

    for event in events:
        yield from end_until(event.start)
        if running:
            yield _make_stretch(reached, event.start, running[-1], runs=0)
        running.append(event)
        reached = event.start
    yield from end_until(math.inf)


def _make_stretch(start: int, end: int, event: _Event, runs: int) -> Stretch:
    return Stretch(start, end, event.name["node"], event.name["type"], runs)


def _list_device_stretches(plane: Any) -> Iterator[Stretch]:
    """Yield the device kernels with a node's name, from the streams; the plane's other lines repeat them."""
    labels = {key for key, metadata in plane.stat_metadata.items() if metadata.name == "tf_op"}
    for line in plane.lines:
        if not line.name.startswith("Stream"):
            continue
        for event in line.events:
            stat = next((stat for stat in event.stats if stat.metadata_id in labels), None)
            label = "" if stat is None else stat.str_value or plane.stat_metadata[stat.ref_value].name
            name = _KERNEL.fullmatch(label)
            if name:
                start = line.timestamp_ns * 1000 + event.offset_ps
                yield Stretch(start, start + event.duration_ps, name["node"], name["type"], runs=1)
