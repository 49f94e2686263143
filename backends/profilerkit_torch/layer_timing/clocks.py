"""The clocks of timers: the host's, or events of the device.

A timer reads moments while the model runs, and turns them into seconds afterwards. Only the clock knows the type of its
moments, so reading a moment need not wait for the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..running.timed_passes import synchronize

__all__ = ["EventClock", "HostClock", "WaitingClock", "choose_clock"]


@dataclass(frozen=True)
class HostClock:
    """The time of the host: a moment is a number of seconds."""

    read: Callable[[], float] = time.perf_counter
    note: str = ""  #: the note in reports on times by this clock; empty for none

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
        later = [moments[0].elapsed_time(moment) / 1000 for moment in moments[1:]]  # milliseconds
        return [0.0, *later] if moments else []


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
