"""The operators that are measured of a device for predictions, each over many shapes.

Of a CUDA device the time for an operator is taken without the host's: the host hands over calls ahead of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit.times.run import Run
from profilerkit_predict.prediction.cases import CalibrationCase, OperatorCall

from ..running.timed_passes import synchronize
from .layer_cases import describe_convolutions, describe_layers, describe_layers_for_gradients
from .operands import Operands, choose_maker
from .operator_cases import (
    describe_attention,
    describe_gradients,
    describe_images,
    describe_products,
    describe_traffic,
    make_gradient,
)

__all__ = ["Busy", "QueuedCall", "make_cases"]


def make_cases(device: torch.device, dtype: str) -> Iterator[CalibrationCase]:
    """Yield the operators to measure; their tensors are made when each is measured."""
    measured = _Measured(device, getattr(torch, dtype))
    is_large = device.type != "cpu"
    operators = chain(
        describe_products(is_large),
        describe_convolutions(is_large),
        describe_attention(is_large),
        describe_layers(is_large),
        describe_traffic(is_large),
        describe_images(is_large),
        describe_gradients(is_large),
    )
    for name, function, operands in operators:
        yield CalibrationCase(f"{name} in {dtype}", partial(measured.prepare_call, function, operands))
    for name, function, operands in describe_layers_for_gradients(is_large):
        prepare = partial(measured.prepare_gradient, function, operands)
        yield CalibrationCase(f"{name} in {dtype}", prepare, is_gradient=True)


class _Measured:
    """A device and a dtype that operators are measured in."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device = device
        self._make_tensors = choose_maker(device, dtype)
        self._busy = Busy(device) if device.type == "cuda" else None

    def prepare_call(self, function: Callable[..., Any], operands: Operands) -> OperatorCall:
        """Return what the call of an operator is measured by, with its tensors."""
        tensors = self._make_tensors(operands)
        return self._prepare(partial(function, *tensors), function, tensors)

    def prepare_gradient(self, function: Callable[..., Any], operands: Operands) -> OperatorCall:
        """Return what the gradients of an operator are measured by, with its tensors."""
        tensors = self._make_tensors(operands)
        return self._prepare(make_gradient(function, tensors), function, tensors)

    def _prepare(
        self, call: Callable[[], object], function: Callable[..., Any], tensors: tuple[torch.Tensor, ...]
    ) -> OperatorCall:
        model, inputs = _Function(function), ModelInputs(*tensors)
        if self._busy is not None:
            queued = QueuedCall(call, self._busy)
            return OperatorCall(queued, model, inputs, lambda: queued.host_seconds)
        if self._device.type != "cpu":
            call = partial(_call_and_wait, call, self._device)
        return OperatorCall(call, model, inputs)


def _call_and_wait(call: Callable[[], object], device: torch.device) -> object:
    """Return what a call returns, when the device is done."""
    result = call()
    synchronize(device)
    return result


class _Function(nn.Module):
    """A model that calls one function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


# Calls that are handed over ahead of the device -----------------------------------------------------------------------


#: As many calls are handed over at once, fewer if they take longer than these seconds together.
_CALLS, _SECONDS = 20, 400e-6
#: The device is kept busy for as long as the host needs, and longer: by this factor, and these seconds.
_LONGER, _BESIDES = 1.5, 50e-6
#: The rows and columns of the product that keeps it busy, and how many of them are timed.
_SIZE, _TIMED = 1024, 20
#: Seconds of a call for which the clock has not moved.
_LEAST = 1e-9

#: Makes an event of torch.cuda.
_MakeEvent = Callable[..., Any]


class Busy:
    """Keeps a CUDA device busy: with products, whose time is measured first.

    Args:
        device: The device.
        event: What makes its events.
    """

    def __init__(self, device: torch.device, event: _MakeEvent = torch.cuda.Event) -> None:
        self.device: torch.device = device
        self.event: _MakeEvent = event
        self._factor = torch.ones(_SIZE, _SIZE, device=device)
        self._product = torch.empty_like(self._factor)
        self._multiply(2)
        self._seconds = self.time(lambda: self._multiply(_TIMED)) / _TIMED

    def for_seconds(self, seconds: float) -> None:
        """Give the device work for at least so long."""
        self._multiply(math.ceil(seconds / self._seconds))

    def time(self, work: Callable[[], object]) -> float:
        """Return the device's seconds for what a function hands to it, when all of it is done."""
        start, end = (self.event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.accelerator.synchronize(self.device)
        return float(start.elapsed_time(end)) / 1000  # events are in milliseconds

    def hand_over(self, work: Callable[[], object], clock: Callable[[], float]) -> float:
        """Return the host's seconds for handing work to the device, which is done with it then."""
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

    Then they run one right after the other, as in a network whose host is ahead of the device.
    """

    def __init__(self, call: Callable[[], object], busy: Busy) -> None:
        super().__init__(call)
        self.busy = busy
        #: What the host takes to hand over one call: the shortest that was measured; 0 before.
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
            self()  # what is made at the first call: plans, workspaces
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
