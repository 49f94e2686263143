"""One timed pass of a model: the functions that run it forward, and its clock, of the host or of CUDA."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeAlias

import torch

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.passes import DevicePass

from ..compat.names import VERSION
from ..untouched.temporary_settings import disable_compiling
from .observation import Observation

__all__ = [
    "EventTimedPass",
    "Pass",
    "forward_pass",
    "forward_pass_with_gradients",
    "make_autocast",
    "synchronize",
]


def synchronize(*devices: torch.device) -> None:
    """Wait until all work of the devices is done."""
    for device in devices:
        if device.type not in ("cpu", "meta"):
            torch.accelerator.synchronize(device)


class Pass(DevicePass):
    """A run whose call returns when every device that it uses is done.

    Before each pass its inputs are restored: with a cache that grows, every call would take longer. That is no part of
    the pass, whose time begins afterwards.
    """

    def __init__(
        self,
        call: Callable[[], Any],
        devices: Sequence[torch.device],
        restore: Callable[[], object] = lambda: None,
        in_parts: Callable[[Callable[[], None]], Any] | None = None,
    ) -> None:
        super().__init__(call, partial(synchronize, *devices), in_parts)
        self.devices = devices
        self.restore = restore
        #: The mode that counts the work of the operators of a pass; None if nothing counts it.
        self.observation: Observation | None = None

    def __call__(self) -> Any:
        """Run one pass."""
        self.restore()
        return super().__call__()

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Run one pass and return its seconds."""
        self.restore()
        start = clock()
        super().__call__()
        return clock() - start

    def parts(self, clock: Callable[[], float] = time.perf_counter) -> Mapping[str, float]:
        """Run one training step and return the seconds of its "forward" and "backward" part; empty without parts."""
        self.restore()
        return super().parts(clock)

    def observe(self) -> None:
        """Run one more pass, as the model is written, and count the work of its operators."""
        if self.observation is None:
            return
        self.observation.begin()
        with disable_compiling(), self.observation:
            self()
        self.runs.append(self.observation.run("a later run"))


class EventTimedPass(Pass):
    """A pass on one CUDA device, which notes by itself when its work begins and ends."""

    def seconds(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Run one pass and return its seconds, from its first work on the device to its last."""
        self.restore()
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
        """Return whether all the work is on one CUDA device: an event is noted in the order of work of one device."""
        return [used.type for used in devices if used.type != "cpu"] == ["cuda"]


#: Makes the context of autocast for one pass.
Autocast: TypeAlias = Callable[[], AbstractContextManager[Any]]


# The functions that run a pass ----------------------------------------------------------------------------------------


def forward_pass(model: Callable[..., Any], inputs: ModelInputs, autocast: Autocast) -> Any:
    """Run the model once without gradients, and return its outputs; the caller sets the mode."""
    with torch.no_grad(), autocast():
        return inputs.run(model)


def forward_pass_with_gradients(model: Callable[..., Any], inputs: ModelInputs, autocast: Autocast) -> Any:
    """Run a model once that computes gradients and relies on its caller to enable them, and return its outputs."""
    with torch.enable_grad(), autocast():
        return inputs.run(model)


def make_autocast(autocast: Any, device: torch.device) -> Autocast:
    """Return a function that makes the context of one pass under autocast, a new one for each pass as in users' code.

    Raises `InputError` if ``autocast`` is not a dtype, or if autocast does not support the dtype on the device.
    """
    if autocast is None or autocast is False:
        return nullcontext
    dtype = getattr(torch, autocast.removeprefix("torch."), None) if isinstance(autocast, str) else autocast
    if autocast is not True and not isinstance(dtype, torch.dtype):
        raise InputError(f"autocast={autocast!r}: give True, or a dtype such as torch.bfloat16 or 'bfloat16'")

    def context() -> AbstractContextManager[Any]:
        return torch.autocast(device.type, dtype=None if autocast is True else dtype)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it leaves autocast off
        try:
            with context():
                works = torch.is_autocast_enabled(device.type)
        except RuntimeError:
            works = False
    if not works:
        raise InputError(f"autocast={autocast!r}: torch {VERSION} does not support that on {device.type}")
    return context
