"""Which clock layers are timed by: the host's, or events in the device's order of work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..running.timed_passes import synchronize

__all__ = ["EventClock", "HostClock", "WaitingClock", "clock_for"]


@dataclass(frozen=True)
class HostClock:
    """The time that passes: a moment is a number of seconds."""

    read: Callable[[], float] = time.perf_counter
    note: str = ""

    def seconds(self, moments: Sequence[float]) -> Sequence[float]:
        """Return the moments as they are."""
        return moments

    def ready(self, moment: float) -> bool:
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

    def ready(self, moment: Any) -> bool:
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
        waited_for = tuple(devices)

        def read() -> float:
            for device in waited_for:
                synchronize(device)
            return time.perf_counter()

        named = ", ".join(sorted(map(str, waited_for)))
        super().__init__(read, f"each layer's work was waited for on {named}, which takes time of its own")


def clock_for(devices: Iterable[torch.device]) -> HostClock | EventClock:
    """Return the clock for a model on these devices."""
    accelerators = {device for device in devices if device.type not in ("cpu", "meta")}
    if not accelerators:
        return HostClock()
    if len(accelerators) == 1:
        clock = EventClock(next(iter(accelerators)))
        try:
            clock.seconds([clock.read(), clock.read()])
            return clock
        except (RuntimeError, NotImplementedError):  # a device without timed events
            pass
    return WaitingClock(accelerators)
