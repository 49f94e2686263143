"""The time of an operator on a CUDA device without the host's time: calls are queued while the device is busy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from profilerkit.times.run import Run

__all__ = ["Busy", "QueuedCall"]

#: As many calls are handed over at once, fewer if they take longer than these seconds together.
_CALLS, _SECONDS = 20, 400e-6
#: The device is kept busy for as long as the host needs, and longer: by this factor, and these seconds.
_LONGER, _BESIDES = 1.5, 50e-6
#: The rows and columns of the product that keeps the device busy, and how many products are timed.
_SIZE, _TIMED = 1024, 20
#: Seconds of a call during which the clock has not moved.
_LEAST = 1e-9

#: Makes an event of torch.cuda.
_MakeEvent = Callable[..., Any]


class Busy:
    """Keeps a CUDA device busy: with products, whose time is measured first; ``event`` makes its events."""

    def __init__(self, device: torch.device, event: _MakeEvent = torch.cuda.Event) -> None:
        self.device: torch.device = device
        self.event: _MakeEvent = event
        self._factor = torch.ones(_SIZE, _SIZE, device=device)
        self._product = torch.empty_like(self._factor)
        self._multiply(2)
        self._seconds = self.time(lambda: self._multiply(_TIMED)) / _TIMED

    def for_seconds(self, seconds: float) -> None:
        """Give the device work for at least so many seconds."""
        self._multiply(math.ceil(seconds / self._seconds))

    def time(self, work: Callable[[], object]) -> float:
        """Return the device's seconds for the work that a function gives to it; waits until the work is done."""
        start, end = (self.event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.accelerator.synchronize(self.device)
        return float(start.elapsed_time(end)) / 1000  # events are in milliseconds

    def hand_over(self, work: Callable[[], object], clock: Callable[[], float]) -> float:
        """Return the host's seconds for handing work to the device; wait until the work is done."""
        began = clock()
        work()
        taken = clock() - began
        torch.accelerator.synchronize(self.device)
        return taken

    def _multiply(self, times: int) -> None:
        with torch.no_grad():
            for _ in range(times):
                torch.mm(self._factor, self._factor, out=self._product)


class QueuedCall(Run):
    """An operator on a CUDA device, which is busy while the host hands over several calls of it.

    Then the calls run one right after the other, as in a network whose host is ahead of the device.
    """

    def __init__(self, call: Callable[[], object], busy: Busy) -> None:
        super().__init__(call)
        self.busy = busy
        #: The host's seconds to hand over one call: the shortest that were measured; 0 before.
        self.host_seconds: float = 0.0
        self._calls = 1

    def __call__(self) -> object:
        """Run it once, and return when the device is done."""
        result = self.call()
        torch.accelerator.synchronize(self.busy.device)
        return result

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Return the seconds for one call; the first time it also finds out how many to hand over at once."""
        if not self.host_seconds:
            self()  # the first call makes plans and workspaces
            self.host_seconds = max(min(self.busy.hand_over(self.call, clock) for _ in range(3)), _LEAST)
            taken = self._time_on_device(clock)
            self._calls = max(1, min(_CALLS, math.ceil(_SECONDS / max(taken, _LEAST))))
        return self._time_on_device(clock)

    def _time_on_device(self, clock: Callable[[], float]) -> float:
        """Return the device's seconds for one of several calls, and keep the host's if they are the shortest so far."""
        self.busy.for_seconds(_LONGER * self._calls * self.host_seconds + _BESIDES)

        def hand_over() -> None:
            began = clock()
            for _ in range(self._calls):
                self.call()
            self.host_seconds = max(min(self.host_seconds, (clock() - began) / self._calls), _LEAST)

        return self.busy.time(hand_over) / self._calls
