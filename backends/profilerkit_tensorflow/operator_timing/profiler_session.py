"""Seconds of each node of a graph, pass by pass: one session of TensorFlow's profiler, and the profile that it writes.

Of the kernels that a session records (`events`), as observed with TensorFlow 2.21:

- Kernels of independent nodes run at the same time on several threads. `NodeTime.seconds` divides such moments among
  the kernels, so that their sum is never above the wall time. If XLA has compiled functions, `PassTimes.busy_seconds`
  is far below it.
- A kernel that TensorFlow has found to be cheap is not recorded: a kernel below 8000 cycles (about 3 microseconds) in a
  running average that starts at 100 million and moves by a tenth with each run, hence after about 90 runs. Runs inside
  a session do not count, which is why the warm-up is in the session too. Give a function that has hardly run before;
  the loop of a recurrent layer makes 90 runs in one call. ``tf.function(lambda *args: concrete(*args))`` is a new
  function made of a concrete function. It also runs slower than a function with known cheap kernels, because it hands
  each kernel to the thread pool: an LSTM of 100 steps takes 1.2 to 1.7 times as long, a convolutional network hardly
  more. Take the nodes' proportions from here and the time of the whole from a clock.

The options of `tf.profiler.experimental.start` keep their defaults, which are suitable (host tracer 2, Python tracer
off, device tracer on): TensorFlow 2.21 ignores options and writes a warning for each to stderr.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from profilerkit import InputError, NotOfferedError, ProfilerBusyError
from profilerkit.process.files import write_bytes
from profilerkit.process.restoring import restored

from ..compat.profiler import is_session_kept, is_session_running, make_xspace
from .events import PASS_MARK, Profile, Stretch, Window, read_profile

__all__ = ["MAX_PASSES", "NodeTime", "PassTimes", "list_passes", "op_seconds"]

#: A session is kept in memory as a whole, at about 20 times the size of the profile: 200 MB for 50 of a ResNet50.
MAX_PASSES = 50
_PICOSECOND = 1e-12


@dataclass(frozen=True, slots=True)
class NodeTime:
    """The time of one node in one pass, over all its runs in it.

    Attributes:
        op_type: The operator that ran, which may be a fused one: ``_FusedConv2D``, ``_MklNativeFusedMatMul``.
        seconds: How long its kernel ran, with time divided evenly among all kernels that run at once, so that the
            seconds of the nodes sum to the time in which any kernel ran.
        calls: How often it ran.
    """

    op_type: str
    seconds: float
    calls: int


@dataclass(frozen=True, slots=True)
class PassTimes:
    """One pass: the seconds it took as a whole, and its nodes by the names under which they ran."""

    wall_seconds: float
    nodes: Mapping[str, NodeTime]

    @property
    def busy_seconds(self) -> float:
        """Seconds in which at least one kernel ran; the rest of ``wall_seconds`` belongs to no node."""
        return sum(node.seconds for node in self.nodes.values())


def op_seconds(call: Callable[[], Any], passes: int, export: str | os.PathLike[str] | None = None) -> list[PassTimes]:
    """Run a call several times in one profiler session and return the seconds of each graph node, pass by pass.

    ``call`` runs a traced function and returns when the device is done. A run to warm up comes first, in the session
    but not in the result. If TensorFlow's profiler sees a GPU, a node's seconds are the time of its kernels on the
    device. The profile is written to a temporary folder and read whole; each pass of a ResNet50 adds 0.17 MB to it, a
    pass of two LSTM layers of 100 steps 0.4 MB. With ``export`` the profile is kept in a file.

    Raises `InputError` for a number of passes that is not from 1 to `MAX_PASSES`, `ProfilerBusyError` if another
    session runs in this process, and any error of ``call``; the session is over in any case.
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
            call()
            for index in range(passes):
                with tf.profiler.experimental.Trace(f"{PASS_MARK}{index}"):
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
        """End our session if it is left: TensorFlow also keeps a session whose start has failed."""
        if is_session_kept() and not is_theirs:
            tf.profiler.experimental.stop(save=False)

    with restored(end, in_child=False):
        try:
            tf.profiler.experimental.start(folder)
        except tf.errors.AlreadyExistsError as error:
            raise busy from error
        yield
        tf.profiler.experimental.stop()


def list_passes(profile: Profile) -> Iterator[PassTimes]:
    """Yield the seconds of each pass in a profile."""
    windows = [profile.windows[index] for index in sorted(profile.windows)]
    host, device = _deal(profile.host, windows), _deal(profile.device, windows)
    for window, on_host, on_device in zip(windows, host, device, strict=True):
        yield _time_pass(window, on_host, on_device)


def _deal(stretches: Sequence[Stretch], windows: Sequence[Window]) -> list[list[Stretch]]:
    """Return the stretches that began in each pass; stretches of the warm-up are left out."""
    starts = [window.start for window in windows]
    dealt: list[list[Stretch]] = [[] for _ in windows]
    for stretch in stretches:
        index = bisect_right(starts, stretch.start) - 1
        if index >= 0 and stretch.start < windows[index].end:
            dealt[index].append(stretch)
    return dealt


def _time_pass(window: Window, host: list[Stretch], device: list[Stretch]) -> PassTimes:
    """Return one pass; a node that ran on a device has its time there, not the time of the launching thread."""
    on_device = {stretch.node for stretch in device}
    counted = [*device, *(stretch for stretch in host if stretch.node not in on_device)]
    runs: Counter[str] = Counter()
    for stretch in host:
        runs[stretch.node] += stretch.runs
    seconds = _share_out(counted)
    nodes = {
        stretch.node: NodeTime(stretch.op_type, seconds[stretch.node] * _PICOSECOND, max(runs[stretch.node], 1))
        for stretch in counted
    }
    return PassTimes((window.end - window.start) * _PICOSECOND, nodes)


def _share_out(stretches: Sequence[Stretch]) -> dict[str, float]:
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
