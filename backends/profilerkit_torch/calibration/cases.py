"""The operators that are measured on a device for predictions, each over many shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit_predict.prediction.cases import CalibrationCase, OperatorCall

from ..running.timed_passes import synchronize
from .layer_cases import describe_convolutions, describe_layers, make_gradient
from .operands import Operands, choose_maker
from .operator_cases import (
    describe_attention,
    describe_gradients,
    describe_images,
    describe_products,
    describe_traffic,
)
from .queued_calls import Busy, QueuedCall

__all__ = ["make_cases"]


def make_cases(device: torch.device, dtype: str) -> Iterator[CalibrationCase]:
    """Yield the operators to measure; their tensors are made when each is measured."""
    measured = _Measured(device, getattr(torch, dtype))
    is_large = device.type != "cpu"
    for describe in (
        *(describe_products, describe_convolutions, describe_attention, describe_layers),
        *(describe_traffic, describe_images, describe_gradients),
    ):
        for name, function, operands in describe(is_large):
            yield CalibrationCase(f"{name} in {dtype}", partial(measured.prepare_call, function, operands))
    for name, function, operands in describe_layers(is_large):
        prepare = partial(measured.prepare_gradient, function, operands)
        yield CalibrationCase(f"gradient of {name} in {dtype}", prepare, is_gradient=True)


class _Measured:
    """A device and a dtype that operators are measured in."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device = device
        self._make_tensors = choose_maker(device, dtype)
        self._busy = Busy(device) if device.type == "cuda" else None

    def prepare_call(self, function: Callable[..., Any], operands: Operands) -> OperatorCall:
        """Return a call of an operator to measure, with its tensors."""
        tensors = self._make_tensors(operands)
        return self._prepare(partial(function, *tensors), function, tensors)

    def prepare_gradient(self, function: Callable[..., Any], operands: Operands) -> OperatorCall:
        """Return a call of the gradients of an operator to measure, with its tensors."""
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
    """Return the result of a call, when the device is done."""
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
