"""Sessions of torch's profiler around passes of a model, and the events that the profiler recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import nn
from torch.profiler import ProfilerActivity, record_function

from profilerkit import NotOfferedError
from profilerkit.process.files import write_elsewhere

from ..running.profiler_sessions import run_profiler
from ..trace.layers import EndedCall, LayerListener
from .events import ENGINE_PREFIX, LAYER_RANGE, PASS_RANGE, Event, EventKind, Kernel

__all__ = ["LayerMarker", "Watched", "choose_activities", "export_session", "run_in_range", "run_session"]


def run_session(call: Callable[[], object], passes: int, activities: Sequence[ProfilerActivity]) -> list[Event]:
    """Run a few passes in one session, after a pass whose events are left out, and return the events of the host."""
    with run_profiler(list(activities)) as session:
        call()
        for _ in range(passes):
            run_in_range(PASS_RANGE, call)
    events = session.events() or ()
    # The kernels on a device are with the operators that started them; asynchronous events take no time of a thread.
    return [_read_event(event) for event in events if "CPU" in str(event.device_type) and not event.is_async]


def export_session(
    call: Callable[[], object], activities: Sequence[ProfilerActivity], path: str | os.PathLike[str]
) -> None:
    """Run one pass in a session, and write the profiler's own trace of it to a file."""
    with run_profiler(list(activities)) as session:
        run_in_range(PASS_RANGE, call)
    with write_elsewhere(path) as scratch:
        session.export_chrome_trace(scratch)


def run_in_range(name: str, call: Callable[[], object]) -> None:
    """Run one pass inside a range of the profiler."""
    with record_function(name):
        call()


class Watched(NamedTuple):
    """The activities that the profiler records, and whether they include the kernels on the device."""

    activities: list[ProfilerActivity]
    on_device: bool


def choose_activities(devices: set[str]) -> Watched:
    """Return the activities to record for a model on these types of devices.

    Raises `NotOfferedError` for a device that the profiler does not see.
    """
    supported = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
    unsupported = sorted(devices - {"cpu", *supported})
    if unsupported:
        raise NotOfferedError(
            f"torch's profiler does not time what operators do on {unsupported[0]}; use layer_times there"
        )
    further = [supported[name] for name in sorted(devices & supported.keys())]
    return Watched([ProfilerActivity.CPU, *further], bool(further))


class LayerMarker(LayerListener):
    """Opens a range of the profiler for each call of a layer."""

    def __init__(self) -> None:
        self._ranges: list[Any] = []

    def begin_layer(self, module: nn.Module, path: str, call: int) -> None:
        """Open the range of a layer."""
        self._ranges.append(record_function(f"{LAYER_RANGE}{path}"))
        self._ranges[-1].__enter__()

    def end_layer(self, module: nn.Module, call: EndedCall) -> None:
        """Close the range of the innermost layer."""
        self._ranges.pop().__exit__(None, None, None)


# The profiler's events as ours ----------------------------------------------------------------------------------------

#: Calls of a device's driver, which the profiler lists beside the operators.
_DRIVER = re.compile(r"(cuda|cu|hip|ze|sycl)[A-Z]\w*|ur[A-Z]\w*")
#: Torch's numbers for the scopes of events.
_BACKWARD_FUNCTION, _USER_SCOPE = 1, 7
_MICROSECOND = 1e6


def _read_event(event: Any) -> Event:
    """Convert an event of the profiler to an `Event`."""
    kind = _find_kind(event.name, event.scope)
    name = event.name
    if kind in (EventKind.LAYER, EventKind.NODE):
        name = name.removeprefix(LAYER_RANGE).removeprefix(ENGINE_PREFIX)
    return Event(
        kind,
        name,
        event.thread,
        event.time_range.start / _MICROSECOND,
        event.time_range.end / _MICROSECOND,
        event.sequence_nr,
        event.fwd_thread if kind is EventKind.NODE else event.thread,
        tuple(Kernel(kernel.name, kernel.duration / _MICROSECOND) for kernel in event.kernels),
    )


def _find_kind(name: str, scope: int) -> EventKind:
    if name == PASS_RANGE:
        return EventKind.PASS
    if name.startswith(LAYER_RANGE):
        return EventKind.LAYER
    if name.startswith(ENGINE_PREFIX) or scope == _BACKWARD_FUNCTION:
        return EventKind.NODE
    if scope == _USER_SCOPE or _DRIVER.fullmatch(name):
        return EventKind.RANGE
    return EventKind.OPERATOR
