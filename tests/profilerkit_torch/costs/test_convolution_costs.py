"""Convolutions of every kind, by numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call, cost, ones, trace_complete
from torch import nn

Function = Callable[..., Any]

INDEX = torch.tensor([0, 2])


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("channels", "filters", "options"),
    [
        (4, 6, {"kernel_size": 3}),
        (4, 6, {"kernel_size": 3, "stride": 2, "padding": 1}),
        (4, 6, {"kernel_size": 3, "dilation": 2}),
        (4, 6, {"kernel_size": 3, "groups": 2}),
        (4, 4, {"kernel_size": 3, "groups": 4, "padding": 1}),
        (4, 6, {"kernel_size": 1}),
        (4, 6, {"kernel_size": 3, "padding": "same"}),
        (4, 6, {"kernel_size": 3, "padding": 1, "padding_mode": "circular"}),
    ],
    ids=["plain", "strided", "dilated", "grouped", "depthwise", "pointwise", "same", "circular"],
)
def test_convolution(dimensions: int, bias: bool, channels: int, filters: int, options: dict[str, Any]) -> None:
    length, batch = 8, 2
    layer = getattr(nn, f"Conv{dimensions}d")(channels, filters, bias=bias, **options)
    kernel, stride, dilation = options["kernel_size"], options.get("stride", 1), options.get("dilation", 1)
    padding = (kernel - 1) // 2 if options.get("padding") == "same" else options.get("padding", 0)
    side = (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    outputs = batch * filters * side**dimensions
    macs = outputs * (channels // options.get("groups", 1)) * kernel**dimensions
    found = trace_complete(layer, ones(batch, channels, *[length] * dimensions))
    assert (found.macs, found.flops) == (macs, 2 * macs + bias * outputs)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2, "stride": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
        {"kernel_size": 3, "groups": 2},
        {"kernel_size": 3, "dilation": 2},
    ],
    ids=["upsampling", "padded", "grouped", "dilated"],
)
def test_transposed_convolution(dimensions: int, options: dict[str, Any]) -> None:
    channels, filters, length = 4, 6, 5
    layer = getattr(nn, f"ConvTranspose{dimensions}d")(channels, filters, **options)
    kernel, stride, dilation = options["kernel_size"], options.get("stride", 1), options.get("dilation", 1)
    side = (length - 1) * stride - 2 * options.get("padding", 0) + dilation * (kernel - 1) + 1
    side += options.get("output_padding", 0)
    macs = channels * length**dimensions * (filters // options.get("groups", 1)) * kernel**dimensions
    found = trace_complete(layer, ones(1, channels, *[length] * dimensions))
    assert (found.macs, found.flops) == (macs, 2 * macs + filters * side**dimensions)


def test_transposed_convolution_by_hand() -> None:
    """3 x 4 x 4 inputs, each by 16 filters of 4 x 4: 12,288; another tool says 62,208."""
    assert trace_complete(nn.ConvTranspose2d(3, 16, 4, 2, 1, bias=False), ones(1, 3, 4, 4)).macs == 12_288


@pytest.mark.parametrize("transposed", [False, True])
def test_the_operator_below_the_convolutions(transposed: bool) -> None:
    def convolve(x: torch.Tensor, weight: torch.Tensor) -> Any:
        return torch.convolution(x, weight, None, [1], [0], [1], transposed, [0], 1)

    macs = (2 * 8 if transposed else 5 * 6) * (5 if transposed else 2) * 3
    weight = ones(2, 5, 3) if transposed else ones(5, 2, 3)
    assert cost(convolve, ones(1, 2, 8), weight) == (macs, 2 * macs)


def test_gradients_inside_a_model_are_work_too() -> None:
    """A force field: the gradient of an energy. Only the input's gradient is asked for, as much as the forward pass."""

    def force(self: Any, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.second(self.first(x).flatten(1)).sum(), x)[0]

    model = Call(force, first=nn.Conv1d(1, 4, 3, bias=False), second=nn.Linear(4 * 6, 1))
    forward = 2 * (4 * 6) * 3 + 2 * (4 * 6)
    assert trace_complete(model, ones(2, 1, 8)).macs == 2 * forward
