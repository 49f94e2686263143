"""Convolutions that a calibration measures, each with its gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from .operands import Described, random

__all__ = ["describe_convolutions"]

#: Convolutions: batch, channels in, size, channels out, kernel, stride.
_CONVOLUTIONS = (
    *((1, 3, 64, 16, 3, 1), (1, 3, 64, 32, 7, 2), (8, 3, 64, 32, 3, 2), (1, 3, 224, 64, 7, 2), (1, 16, 32, 16, 3, 1)),
    *((1, 32, 32, 64, 1, 1), (8, 32, 32, 64, 1, 1), (1, 64, 56, 64, 3, 1), (1, 64, 56, 256, 1, 1)),
    *((1, 128, 28, 128, 3, 1), (1, 256, 14, 256, 3, 1), (1, 256, 14, 1024, 1, 1), (1, 512, 7, 512, 3, 1)),
    *((8, 64, 16, 64, 3, 1), (8, 128, 8, 128, 3, 1), (8, 16, 32, 16, 3, 1), (4, 64, 28, 128, 3, 2)),
    (8, 256, 7, 256, 1, 1),
)
#: The smallest tell what a call takes however little it does; many samples have many rows.
_MORE_CONVOLUTIONS = (
    *((2, 3, 4, 4, 3, 1), (2, 4, 4, 4, 1, 1), (1, 8, 16, 16, 3, 1), (4, 16, 16, 32, 1, 1), (2, 4, 4, 4, 3, 1)),
    *((16, 3, 32, 8, 3, 1), (16, 3, 64, 32, 3, 1), (16, 8, 32, 16, 3, 1), (16, 32, 32, 64, 3, 1)),
    *((4, 24, 56, 48, 3, 1), (16, 64, 14, 64, 1, 1), (16, 96, 28, 96, 1, 1)),
    *((8, 48, 48, 3, 3, 1), (1, 24, 32, 3, 3, 1), (16, 16, 64, 16, 3, 1), (8, 64, 24, 64, 3, 1)),
)
#: Convolutions that keep the channels and the size: channels, size; each of these with the kernels and batches below.
_SQUARE = ((16, 24), (32, 16), (48, 32), (64, 28), (128, 14))
_SQUARE_KERNELS, _SQUARE_BATCHES = (1, 3), (1, 8)
#: Depthwise convolutions: batch, channels, size, kernel.
_DEPTHWISE = (
    (1, 4, 4, 3),
    (1, 16, 16, 3),
    (16, 48, 28, 3),
    (1, 32, 56, 3),
    (1, 96, 28, 3),
    (1, 192, 14, 7),
    (1, 384, 14, 3),
    (1, 576, 7, 3),
    (8, 64, 16, 3),
    (8, 32, 32, 5),
)
#: What fills a device of its own as well.
_LARGE_CONVOLUTIONS = (
    *((64, 3, 224, 64, 7, 2), (64, 64, 56, 64, 3, 1), (64, 64, 56, 256, 1, 1), (64, 256, 56, 64, 1, 1)),
    *((64, 128, 28, 128, 3, 1), (64, 512, 28, 128, 1, 1), (64, 256, 14, 256, 3, 1), (64, 1024, 14, 256, 1, 1)),
    *((64, 512, 7, 512, 3, 1), (64, 512, 7, 2048, 1, 1), (256, 3, 64, 32, 3, 1), (256, 16, 32, 16, 3, 1)),
    *((256, 64, 24, 64, 3, 1), (256, 32, 48, 64, 3, 1), (256, 32, 64, 64, 3, 2)),
)
_LARGE_DEPTHWISE = ((256, 64, 28, 3), (64, 192, 56, 3), (64, 384, 14, 3))


def describe_convolutions(is_large: bool) -> Described:
    """Yield convolutions and gradients, each a name, a function and its inputs; large ones for a device of its own."""
    square = tuple(
        (batch, channels, size, channels, kernel, 1)
        for channels, size in _SQUARE
        for kernel in _SQUARE_KERNELS
        for batch in _SQUARE_BATCHES
    )
    listed = (*_CONVOLUTIONS, *_MORE_CONVOLUTIONS, *square, *_LARGE_CONVOLUTIONS * is_large)
    for batch, channels, size, out, kernel, stride in listed:
        x, weight = random(batch, channels, size, size), random(out, channels, kernel, kernel)
        convolve = partial(functional.conv2d, stride=stride, padding=kernel // 2)
        yield f"convolution {x.shape} {weight.shape}", convolve, (x, weight, random(out))
        if channels <= 3 or stride == 1:
            length = (size - 1) // stride + 1
            dy = random(batch, out, length, length)
            # The images that a first layer gets need no gradient.
            differentiate = _make_gradient(kernel // 2, out, stride, groups=1, by_input=channels > 3)
            yield f"gradient {x.shape} {weight.shape}", differentiate, (dy, x, weight)
    for batch, channels, size, kernel in _DEPTHWISE + _LARGE_DEPTHWISE * is_large:
        x, weight = random(batch, channels, size, size), random(channels, 1, kernel, kernel)
        convolve = partial(functional.conv2d, padding=kernel // 2, groups=channels)
        yield f"depthwise {x.shape}", convolve, (x, weight, random(channels))
        dy = random(batch, channels, size, size)
        differentiate = _make_gradient(kernel // 2, channels, 1, groups=channels, by_input=True)
        yield f"gradient of depthwise {x.shape}", differentiate, (dy, x, weight)


def _make_gradient(padding: int, out: int, stride: int, groups: int, by_input: bool) -> Callable[..., Any]:
    """Return the function of the gradients by weight and bias, and by the input if that is wanted."""
    bias_sizes, strides, paddings, dilation, output_padding = [out], [stride] * 2, [padding] * 2, [1, 1], [0, 0]
    is_transposed, output_mask = False, [by_input, True, True]
    options = bias_sizes, strides, paddings, dilation, is_transposed, output_padding, groups, output_mask

    def differentiate(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
        return torch.ops.aten.convolution_backward(dy, x, weight, *options)

    return differentiate
