"""The clocks of timers: the host's, or events of the device.

A timer reads moments while the model runs, and turns them into seconds afterwards. Only the clock knows the type of its
moments, so reading a moment need not wait for the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..running.timed_passes import synchronize
from .timed_calls import Call

__all__ = ["EventClock", "HostClock", "Moments", "WaitingClock", "choose_clock"]


@dataclass(frozen=True)
class HostClock:
    """The time of the host: a moment is a number of seconds."""

    read: Callable[[], float] = time.perf_counter
    #: The note in reports on times by this clock; empty for none.
    note: str = ""

    def seconds(self, moments: Sequence[float]) -> Sequence[float]:
        """Return the moments unchanged."""
        return moments

    def has_passed(self, moment: float) -> bool:
        """Return True: a moment of this clock has been read already."""
        return True


class EventClock:
    """Events that the device records in its order of work: nothing waits for them until they are read.

    A moment costs the host a few microseconds; a device that has work to do loses no time.
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
            moment.synchronize()  # of several streams any may be the last
        return [0.0, *(moments[0].elapsed_time(moment) / 1000 for moment in moments[1:])]  # milliseconds


class WaitingClock(HostClock):
    """The host's clock, read when every device is done: for several devices, and for devices without timed events."""

    def __init__(self, devices: Iterable[torch.device]) -> None:
        devices = tuple(devices)
        names = ", ".join(sorted(map(str, devices)))
        note = f"each layer's work was waited for on {names}, which takes time of its own"

        def read() -> float:
            synchronize(*devices)
            return time.perf_counter()

        super().__init__(read, note)


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


# From moments to the seconds of calls ---------------------------------------------------------------------------------


class _Moment(NamedTuple):
    """A moment before its conversion to seconds, and the call whose time begins there."""

    moment: Any
    call: Call | None
    is_backward: bool


class Moments:
    """The moments of a clock: the time between two moments belongs to the call that runs after the first."""

    def __init__(self, clock: HostClock | EventClock) -> None:
        self._clock = clock
        self._moments: list[_Moment] = []

    def add(self, moment: Any, call: Call | None, is_backward: bool) -> None:
        """Note a moment at which the time of a call begins; None if no layer runs."""
        self._moments.append(_Moment(moment, call, is_backward))

    def drop_elapsed(self) -> None:
        """Take the time since the last moment away from its call."""
        if self._moments:
            self._moments[-1] = self._moments[-1]._replace(call=None)

    @property
    def are_ready(self) -> bool:
        """Whether the moments can become seconds without waiting for a device."""
        return bool(self._moments) and self._clock.has_passed(self._moments[-1].moment)

    def settle(self, goes_on: bool) -> None:
        """Convert the moments so far to seconds of their calls; the time of the last call may go on."""
        moments, self._moments = self._moments, []
        if not moments:
            return
        seconds = self._clock.seconds([moment.moment for moment in moments])
        for moment, start, end in zip(moments, seconds, seconds[1:], strict=False):
            if moment.call is not None:
                moment.call.get_elapsed(moment.is_backward).seconds += end - start
        if goes_on:
            self._moments.append(moments[-1])
