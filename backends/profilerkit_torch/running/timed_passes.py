"""One pass of a model as it is timed, and the clock for it: that of the host, or of a CUDA device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from profilerkit.backend_kit.passes import DevicePass

from ..untouched.temporary_settings import disable_compiling
from .observation import Observation, without_fused_layers

__all__ = ["EventTimedPass", "Pass", "synchronize"]


def synchronize(*devices: torch.device) -> None:
    """Wait until all work of the devices is done."""
    for device in devices:
        if device.type not in ("cpu", "meta"):
            torch.accelerator.synchronize(device)


class Pass(DevicePass):
    """A run whose call returns when every device that it uses is done."""

    def __init__(
        self,
        call: Callable[[], Any],
        devices: Sequence[torch.device],
        in_parts: Callable[[Callable[[], None]], Any] | None = None,
    ) -> None:
        super().__init__(call, partial(synchronize, *devices), in_parts)
        self.devices = devices
        #: What looks at the operators of a pass; None where nothing does.
        self.observation: Observation | None = None

    @contextmanager
    def observe(self) -> Iterator[None]:
        """Add up what the operators of one pass multiply and add, as they were written.

        Layers that are fused stay so, as in the passes that are timed, unless they leave padding out.
        """
        if self.observation is None:
            yield
            return
        layers = without_fused_layers() if self.observation.has_padding_left_out else nullcontext()
        self.observation.begin()
        with disable_compiling(), layers, self.observation:
            yield
        self.runs.append(self.observation.run("a later run"))


class EventTimedPass(Pass):
    """A pass on one CUDA device, which notes itself when its work begins and ends."""

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Run one pass and return its seconds, from its first work on the device to its last."""
        device = next(used for used in self.devices if used.type == "cuda")
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.device(device):
            start.record()
            self.call()
            end.record()
        synchronize(device)
        return float(start.elapsed_time(end)) / 1000  # events are in milliseconds

    @staticmethod
    def suits(devices: Iterable[torch.device]) -> bool:
        """Return whether all the work is on one CUDA device: an event is noted in the order of work of one alone."""
        return [used.type for used in devices if used.type != "cpu"] == ["cuda"]
