"""Seconds of each node of a graph, pass by pass: one session of TensorFlow's profiler, and the profile that it writes.

Of the kernels that a session records (`read_profile`), as observed with TensorFlow 2.21:

- Kernels of independent nodes run at the same time on several threads, so that the sum over the nodes can be above the
  wall time. `NodeTime.share_seconds` divides such moments among the kernels; these sums never are above it. Where XLA
  has compiled functions, `PassTimes.busy_seconds` is far below the wall time.
- A kernel that TensorFlow has found to be cheap is not recorded: one below 8000 cycles (about 3 microseconds) in a
  running average that starts at 100 million and moves by a tenth with each run, hence after about 90 runs. Runs inside
  a session do not count, which is why the warm-up is in the session too. Give a function that has hardly run before;
  the loop of a recurrent layer makes 90 runs in one call. ``tf.function(lambda *args: concrete(*args))`` is a new one
  made of a concrete function. It also runs slower than one that knows its cheap kernels, since it hands each of them
  to the thread pool: an LSTM of 100 steps takes 1.2 to 1.7 times as long, a convolutional network hardly more. Take the
  nodes' proportions from here and the time of the whole from a clock.

The options of `tf.profiler.experimental.start` are left at their defaults, which are what is needed (host tracer 2,
Python tracer off, device tracer on): TensorFlow 2.21 ignores them and complains about each on stderr.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit import InputError, NotOfferedError, ProfilerBusyError
from profilerkit.process.files import write_bytes
from profilerkit.process.restoring import restored

from ..compat.profiler import is_session_kept, is_session_running, make_xspace

__all__ = ["MAX_PASSES", "NodeTime", "PassTimes", "list_passes", "op_seconds", "read_profile"]

#: A session is kept in memory as a whole, at about 20 times the size of the profile: 200 MB for 50 of a ResNet50.
MAX_PASSES = 50
_PICOSECOND = 1e-12


@dataclass(frozen=True, slots=True)
class NodeTime:
    """The seconds of one node in one pass, over all its runs in it.

    Attributes:
        op_type: The operator that ran, which may be a fused one: ``_FusedConv2D``, ``_MklNativeFusedMatMul``.
        seconds: How long its kernel ran.
        share_seconds: The same with time divided evenly among all kernels that run at once, so that the shares of the
            nodes sum to the time in which any kernel ran.
        calls: How often it ran.
    """

    op_type: str
    seconds: float
    share_seconds: float
    calls: int


@dataclass(frozen=True, slots=True)
class PassTimes:
    """One pass: the seconds it took as a whole, and its nodes by the names under which they ran."""

    wall_seconds: float
    nodes: Mapping[str, NodeTime]

    @property
    def busy_seconds(self) -> float:
        """Seconds in which at least one kernel ran; the rest of ``wall_seconds`` belongs to no node."""
        return sum(node.share_seconds for node in self.nodes.values())


def op_seconds(
    call: Callable[[], Any], passes: int, *, warmup: int = 1, export: str | os.PathLike[str] | None = None
) -> list[PassTimes]:
    """Run a call several times in one profiler session and return the seconds of each graph node, pass by pass.

    ``call`` runs a traced function and returns when the device is done. ``warmup`` runs come first, in the session but
    not in the result. Where TensorFlow's profiler sees a GPU, a node's seconds are those of its kernels on the device.
    The profile is written to a temporary folder and read whole; each pass of a ResNet50 adds 0.17 MB to it, one of two
    LSTM layers of 100 steps 0.4 MB. With ``export`` it is kept in that file.

    Raises `InputError` for a number of passes that is not from 1 to `MAX_PASSES`, `ProfilerBusyError` where another
    session runs in this process, and whatever ``call`` raises; the session is over in any case.
    """
    if not 1 <= passes <= MAX_PASSES:
        raise InputError(f"passes={passes}: one profiler session holds from 1 to {MAX_PASSES} passes")
    space = make_xspace()
    if space is None:
        raise NotOfferedError(
            f"TensorFlow {tf.__version__} writes its profiles in a format that profilerkit cannot read, so that "
            "operators cannot be timed; use a release in docs/releases.rst, or leave the layers' times out"
        )
    with tempfile.TemporaryDirectory(prefix="profilerkit_") as folder:
        with _session(folder):
            for _ in range(warmup):
                call()
            for index in range(passes):
                with tf.profiler.experimental.Trace(f"{_STEP}{index}"):
                    call()
        content = b"".join(path.read_bytes() for path in sorted(Path(folder).rglob("*.xplane.pb")))
    if export is not None:
        write_bytes(export, content)
    space.ParseFromString(content)
    return list(list_passes(read_profile(space)))


@contextmanager
def _session(folder: str) -> Iterator[None]:
    """Hold the one profiler session of the process; its profile is in the folder afterwards, except after an error."""
    busy = ProfilerBusyError(
        "operators are timed in a profiler session, and TensorFlow has one session per process, which runs already; "
        "stop it (tf.profiler.experimental.stop(), a TensorBoard callback's profile_batch=0, a profiler server) and "
        "try again"
    )
    if is_session_running():  # a failed start would log a warning
        raise busy
    is_theirs = is_session_kept()

    def end() -> None:
        """End what is left of our session: TensorFlow also keeps one that an error has kept from its beginning."""
        if is_session_kept() and not is_theirs:
            tf.profiler.experimental.stop(save=False)

    with restored(end, in_child=False):
        try:
            tf.profiler.experimental.start(folder)
        except tf.errors.AlreadyExistsError as error:
            raise busy from error
        yield
        tf.profiler.experimental.stop()


def list_passes(profile: _Profile) -> Iterator[PassTimes]:
    """Yield the seconds of each pass in a profile."""
    windows = [profile.windows[index] for index in sorted(profile.windows)]
    host, device = _deal(profile.host, windows), _deal(profile.device, windows)
    for window, on_host, on_device in zip(windows, host, device, strict=True):
        yield _time_pass(window, on_host, on_device)


def _deal(stretches: Sequence[_Stretch], windows: Sequence[_Window]) -> list[list[_Stretch]]:
    """Return the stretches that began in each pass; those of the warm-up are left out."""
    starts = [window.start for window in windows]
    dealt: list[list[_Stretch]] = [[] for _ in windows]
    for stretch in stretches:
        index = bisect_right(starts, stretch.start) - 1
        if index >= 0 and stretch.start < windows[index].end:
            dealt[index].append(stretch)
    return dealt


def _time_pass(window: _Window, host: list[_Stretch], device: list[_Stretch]) -> PassTimes:
    """Return one pass; a node that ran on a device has its time there, not that of the thread that launched it."""
    on_device = {stretch.node for stretch in device}
    on_host = [stretch for stretch in host if stretch.node not in on_device]
    counted = sorted(device + on_host, key=lambda stretch: stretch.start)
    runs: Counter[str] = Counter()
    for stretch in host:
        runs[stretch.node] += stretch.runs
    durations: Counter[str] = Counter()
    for stretch in counted:
        durations[stretch.node] += stretch.end - stretch.start
    shares = _share_out(counted)
    types = {stretch.node: stretch.op_type for stretch in counted}
    nodes = {
        node: NodeTime(op_type, durations[node] * _PICOSECOND, shares[node] * _PICOSECOND, max(runs[node], 1))
        for node, op_type in types.items()
    }
    return PassTimes((window.end - window.start) * _PICOSECOND, nodes)


def _share_out(stretches: Sequence[_Stretch]) -> dict[str, float]:
    """Return each node's share of the time, which is divided evenly among the kernels that run at once."""
    edges = [(stretch.start, index) for index, stretch in enumerate(stretches)]
    edges += [(stretch.end, index) for index, stretch in enumerate(stretches)]
    shares = dict.fromkeys((stretch.node for stretch in stretches), 0.0)
    running: set[int] = set()
    reached = 0
    for moment, index in sorted(edges):
        for other in running:
            shares[stretches[other].node] += (moment - reached) / len(running)
        running ^= {index}  # it begins at its first edge, and ends at its second
        reached = moment
    return shares


# A profile: the stretches of time in which a kernel ran, and the passes that were marked ------------------------------

# What the profiler records, as observed with TensorFlow 2.21:
#
# - The executor records one event for each kernel it runs, ``name of the node:type of the operator``, on the line of
#   the thread that ran it. The executor's own events (``ExecutorState::Process``, ``FunctionRun``, ``EagerExecute``,
#   ...) lie around and between them and are not counted. The threads of a kernel that is parallel in itself record no
#   kernel events: the kernel's event lasts until they are done. A kernel that runs others on its own thread
#   (``tf.py_function``, a called function that was not inlined) counts without these.
# - Constants, placeholders, identities that were pruned and the switches of loops record nothing.
# - What XLA compiled records nothing under a node's name, and neither do eager operators.
# - The session sees the whole process: run nothing else of TensorFlow meanwhile, a ``tf.data`` pipeline for example.

#: What the name of the event of a pass begins with; its number follows.
_STEP = "profilerkit_pass_"
_STEP_NAME = re.compile(rf"{_STEP}(\d+)")
_KERNEL = re.compile(r"(?P<node>[A-Za-z0-9.][\w.\\/>-]*):(?P<type>[A-Za-z_]\w*)")


class _Window(NamedTuple):
    """The time of one pass: picoseconds since the epoch."""

    start: int
    end: int


class _Stretch(NamedTuple):
    """A stretch of time in which a thread or device stream ran the kernel of a node: picoseconds since the epoch.

    ``runs`` is 1 for the stretch with which a run of the kernel ends, 0 for one before a kernel inside it.
    """

    start: int
    end: int
    node: str
    op_type: str
    runs: int


@dataclass
class _Profile:
    """What a profile holds.

    Attributes:
        windows: The time of each pass, by its number.
        host: The kernels on threads of the CPU.
        device: The kernels on streams of a GPU.
    """

    windows: dict[int, _Window] = field(default_factory=dict)
    host: list[_Stretch] = field(default_factory=list)
    device: list[_Stretch] = field(default_factory=list)


class _Event(NamedTuple):
    """An event on a line of a profile, whose name was looked for."""

    start: int
    end: int
    name: re.Match[str]


def read_profile(space: Any) -> _Profile:
    """Return the passes and kernels of a profile that TensorFlow has written, an XSpace."""
    profile = _Profile()
    for plane in space.planes:
        if plane.name.startswith("/device:GPU"):
            profile.device += _list_device_stretches(plane)
            continue
        kernels, steps = _match_names(plane, _KERNEL), _match_names(plane, _STEP_NAME)
        for line in plane.lines:
            profile.host += _cut_into_stretches(_list_events(line, kernels))
            for step in _list_events(line, steps):
                profile.windows[int(step.name[1])] = _Window(step.start, step.end)
    return profile


def _match_names(plane: Any, pattern: re.Pattern[str]) -> dict[int, re.Match[str]]:
    """Return the names of a plane's events that match a pattern, by the number of the name."""
    matches = ((key, pattern.fullmatch(metadata.name)) for key, metadata in plane.event_metadata.items())
    return {key: matched for key, matched in matches if matched}


def _list_events(line: Any, names: Mapping[int, re.Match[str]]) -> list[_Event]:
    """Return a line's events with these names, outer ones before those inside them."""
    origin = line.timestamp_ns * 1000
    events = []
    for event in line.events:
        if event.metadata_id in names:
            start = origin + event.offset_ps
            events.append(_Event(start, start + event.duration_ps, names[event.metadata_id]))
    return sorted(events, key=lambda event: (event.start, -event.end))


def _cut_into_stretches(events: Iterable[_Event]) -> Iterator[_Stretch]:
    """Cut the kernels of one thread, which may be nested, into stretches that belong to the innermost."""
    running: list[_Event] = []
    reached = 0

    def end_until(time: float) -> Iterator[_Stretch]:
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


def _make_stretch(start: int, end: int, event: _Event, runs: int) -> _Stretch:
    return _Stretch(start, end, event.name["node"], event.name["type"], runs)


def _list_device_stretches(plane: Any) -> Iterator[_Stretch]:
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
                yield _Stretch(start, start + event.duration_ps, name["node"], name["type"], runs=1)
