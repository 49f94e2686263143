"""What notes when the call of a module begins and ends, and which clock it reads: the host's, or the device's events.

A timer reads moments while the model runs, and turns them into seconds afterwards; what a moment is, only its clock
knows. So reading one need not wait for the device.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit.process.restoring import restored

from ..compat.autograd import read_next_node_number
from ..compat.modules import name_of_call
from ..running.timed_passes import synchronize
from ..untouched.temporary_settings import deepen_recursion
from .timeline import Event, Kind

__all__ = ["CallRecorder", "EventClock", "HostClock", "WaitingClock", "choose_clock"]

_ENTER, _LEAVE = Kind.ENTER, Kind.LEAVE
_thread = threading.get_ident


class CallRecorder:
    """Notes the calls of modules in one thread at a time.

    Args:
        clock: What reads the moments.
        on_begin: Called before an outermost call begins.
        on_output: Called with what an outermost call returned, when the moment of its end is noted.

    Attributes:
        events: What was noted.
        elsewhere: The ``id`` of each module that was called in another thread while the model ran in one.
    """

    def __init__(
        self,
        clock: HostClock | EventClock,
        on_begin: Callable[[], None] = lambda: None,
        on_output: Callable[[Any], None] = lambda output: None,
    ) -> None:
        self.events: list[Event] = []
        self.clock: Callable[[], Any] = clock.read
        #: The thread in which a module runs, as ``"thread"``; empty where none does. Each stand-in has this dict.
        self.running: dict[str, int] = {}
        self.elsewhere: set[int] = set()
        self._on_begin, self._on_output = on_begin, on_output

    @contextmanager
    def note_calls(self, modules: Mapping[int, nn.Module]) -> Iterator[None]:
        """Note the calls of these modules, by the index that events have; each gets a stand-in for what calls it."""
        replaced: list[tuple[nn.Module, str, Any]] = []

        def take_back() -> None:
            for module, name, previous in reversed(replaced):
                if previous is None:
                    module.__dict__.pop(name, None)
                else:
                    module.__dict__[name] = previous

        with restored(take_back):
            for index, module in modules.items():
                name = name_of_call(module)
                replaced.append((module, name, module.__dict__.get(name)))
                module.__dict__[name] = TimedCall(self, module, name, index)
            yield

    def outermost(self, timed: TimedCall, args: Any, kwargs: Any) -> Any:
        """Run a call that no other one of this thread is around; unnoted where a module runs in another thread."""
        if self.running.setdefault("thread", _thread()) != _thread():
            self.elsewhere.add(id(timed.module))
            return timed.call(*args, **kwargs)
        try:
            self._on_begin()
            raised = True
            self.events.append((_ENTER, timed.index, self.clock(), read_next_node_number()))
            try:
                with deepen_recursion():
                    output = timed.call(*args, **kwargs)
                raised = False
            finally:
                self.events.append((_LEAVE, raised, self.clock(), read_next_node_number()))
            self._on_output(output)
            return output
        finally:
            self.running.clear()


class TimedCall:
    """Calls a module and notes when that began and ended; a copy of the module gets a way of its own."""

    __slots__ = ("append", "call", "clock", "index", "module", "name", "recorder", "running")

    def __init__(self, recorder: CallRecorder, module: nn.Module, name: str, index: int) -> None:
        self.recorder: CallRecorder = recorder
        self.module: nn.Module = module
        self.name: str = name
        self.index: int = index
        self.call: Callable[..., Any] = getattr(module, name)
        self.append: Callable[[Event], None] = recorder.events.append
        self.clock: Callable[[], Any] = recorder.clock
        self.running: dict[str, int] = recorder.running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        if _thread() != self.running.get("thread"):
            return self.recorder.outermost(self, args, kwargs)
        self.append((_ENTER, self.index, self.clock(), read_next_node_number()))
        try:
            return self.call(*args, **kwargs)
        finally:
            self.append((_LEAVE, False, self.clock(), read_next_node_number()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy or pickle as what the copied module is called by."""
        return getattr, (self.module, self.name)


# Clocks ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HostClock:
    """The time of the host: a moment is a number of seconds."""

    read: Callable[[], float] = time.perf_counter
    #: What reports say of times by this clock; empty for nothing.
    note: str = ""

    def seconds(self, moments: Sequence[float]) -> Sequence[float]:
        """Return the moments as they are."""
        return moments

    def has_passed(self, moment: float) -> bool:
        """Return True: a moment of this clock has been read already."""
        return True


class EventClock:
    """Events that the device records in its order of work: nothing waits for them until they are read.

    One moment costs the host a few microseconds, which are no time of the device's while it has work to do.
    """

    note = ""

    def __init__(
        self,
        device: torch.device,
        event: Callable[..., Any] = torch.Event,
        stream: Callable[..., Any] = torch.accelerator.current_stream,
    ) -> None:
        self._device = device
        self._event = event
        self._stream = stream

    def read(self) -> Any:
        """Note a moment on the stream that the device works in now."""
        event = self._event(self._device, enable_timing=True)
        event.record(self._stream(self._device))
        return event

    def has_passed(self, moment: Any) -> bool:
        """Return whether the device has reached a moment."""
        return bool(moment.query())

    def seconds(self, moments: Sequence[Any]) -> Sequence[float]:
        """Wait for the last moment and return all of them, counted from the first."""
        for moment in moments:
            moment.synchronize()  # of several streams none need be the last
        return [0.0, *(moments[0].elapsed_time(moment) / 1000 for moment in moments[1:])]  # milliseconds


class WaitingClock(HostClock):
    """The host's clock, read when every device is done: for several devices, and for those without timed events."""

    def __init__(self, devices: Iterable[torch.device]) -> None:
        devices = tuple(devices)
        names = ", ".join(sorted(map(str, devices)))
        note = f"each layer's work was waited for on {names}, which takes time of its own"
        super().__init__(partial(_wait_and_read, devices), note)


def _wait_and_read(devices: Iterable[torch.device]) -> float:
    synchronize(*devices)
    return time.perf_counter()


def choose_clock(devices: Iterable[torch.device]) -> HostClock | EventClock:
    """Return the clock for a model on these devices: events for one accelerator, the host's for the CPU alone."""
    accelerators = {device for device in devices if device.type not in ("cpu", "meta")}
    if not accelerators:
        return HostClock()
    if len(accelerators) == 1:  # the events of several devices have no common time
        clock = EventClock(next(iter(accelerators)))
        if _works(clock):
            return clock
    return WaitingClock(accelerators)


def _works(clock: EventClock) -> bool:
    """Return whether the device of a clock has events with a time."""
    try:
        clock.seconds([clock.read(), clock.read()])
    except (RuntimeError, NotImplementedError):
        return False
    return True
