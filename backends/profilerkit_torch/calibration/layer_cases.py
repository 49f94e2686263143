"""Convolutions and recurrent layers that a calibration measures, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

import torch
from torch.backends import cudnn
from torch.nn import functional

from ..compat.operators import find_operator
from .operands import Described, Operand, Operands, random

__all__ = [
    "describe_convolutions",
    "describe_inputs",
    "describe_layers",
    "make_gradient",
    "run_gru",
    "run_lstm",
]


class _Convolution(NamedTuple):
    """A convolution of square images, padded so that they keep their size: a stride makes them smaller."""

    batch: int
    channels: int
    size: int
    out: int
    kernel: int
    stride: int = 1
    groups: int = 1


#: By the first fields of `_Convolution`, like all tables below except the depthwise tables.
_CONVOLUTIONS = (
    *((1, 3, 64, 16, 3, 1), (1, 3, 64, 32, 7, 2), (8, 3, 64, 32, 3, 2), (1, 3, 224, 64, 7, 2), (1, 16, 32, 16, 3, 1)),
    *((1, 32, 32, 64, 1, 1), (8, 32, 32, 64, 1, 1), (1, 64, 56, 64, 3, 1), (1, 64, 56, 256, 1, 1)),
    *((1, 128, 28, 128, 3, 1), (1, 256, 14, 256, 3, 1), (1, 256, 14, 1024, 1, 1), (1, 512, 7, 512, 3, 1)),
    *((8, 64, 16, 64, 3, 1), (8, 128, 8, 128, 3, 1), (8, 16, 32, 16, 3, 1), (4, 64, 28, 128, 3, 2)),
    (8, 256, 7, 256, 1, 1),
)
#: The smallest convolutions show the constant time of a call; many samples have many rows.
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
    *((1, 4, 4, 3), (1, 16, 16, 3), (16, 48, 28, 3), (1, 32, 56, 3), (1, 96, 28, 3), (1, 192, 14, 7)),
    *((1, 384, 14, 3), (1, 576, 7, 3), (8, 64, 16, 3), (8, 32, 32, 5)),
)
#: Convolutions large enough for an accelerator.
_LARGE_CONVOLUTIONS = (
    *((64, 3, 224, 64, 7, 2), (64, 64, 56, 64, 3, 1), (64, 64, 56, 256, 1, 1), (64, 256, 56, 64, 1, 1)),
    *((64, 128, 28, 128, 3, 1), (64, 512, 28, 128, 1, 1), (64, 256, 14, 256, 3, 1), (64, 1024, 14, 256, 1, 1)),
    *((64, 512, 7, 512, 3, 1), (64, 512, 7, 2048, 1, 1), (256, 3, 64, 32, 3, 1), (256, 16, 32, 16, 3, 1)),
    *((256, 64, 24, 64, 3, 1), (256, 32, 48, 64, 3, 1), (256, 32, 64, 64, 3, 2)),
)
_LARGE_DEPTHWISE = ((256, 64, 28, 3), (64, 192, 56, 3), (64, 384, 14, 3))


def describe_convolutions(is_large: bool) -> Described:
    """Yield convolutions and gradients, each a name, a function and its inputs; large ones are for accelerators."""
    square = [
        (batch, channels, size, channels, kernel)
        for channels, size in _SQUARE
        for kernel in _SQUARE_KERNELS
        for batch in _SQUARE_BATCHES
    ]
    large, large_depthwise = (_LARGE_CONVOLUTIONS, _LARGE_DEPTHWISE) if is_large else ((), ())
    for convolution in starmap(_Convolution, (*_CONVOLUTIONS, *_MORE_CONVOLUTIONS, *square, *large)):
        x, weight, bias = _describe_inputs(convolution)
        yield f"convolution {x.shape} {weight.shape}", _make_convolution(convolution), (x, weight, bias)
        is_first_layer = convolution.channels <= 3
        if is_first_layer or convolution.stride == 1:
            # The images that a first layer gets need no gradient.
            differentiate = _make_gradient(convolution, by_input=not is_first_layer)
            yield f"gradient {x.shape} {weight.shape}", differentiate, (_describe_output(convolution), x, weight)
    for batch, channels, size, kernel in (*_DEPTHWISE, *large_depthwise):
        convolution = _Convolution(batch, channels, size, channels, kernel, groups=channels)
        x, weight, bias = _describe_inputs(convolution)
        yield f"depthwise {x.shape}", _make_convolution(convolution), (x, weight, bias)
        differentiate = _make_gradient(convolution, by_input=True)
        yield f"gradient of depthwise {x.shape}", differentiate, (_describe_output(convolution), x, weight)


def _describe_inputs(convolution: _Convolution) -> tuple[Operand, Operand, Operand]:
    """Return the images, the weight and the bias."""
    batch, channels, size, out, kernel, _, groups = convolution
    return random(batch, channels, size, size), random(out, channels // groups, kernel, kernel), random(out)


def _describe_output(convolution: _Convolution) -> Operand:
    """Return a tensor like the output, for its gradient."""
    size = (convolution.size - 1) // convolution.stride + 1
    return random(convolution.batch, convolution.out, size, size)


def _make_convolution(convolution: _Convolution) -> Callable[..., Any]:
    """Return the function that convolves."""
    padding = convolution.kernel // 2
    return partial(functional.conv2d, stride=convolution.stride, padding=padding, groups=convolution.groups)


def _make_gradient(convolution: _Convolution, by_input: bool) -> Callable[..., Any]:
    """Return the function of the gradients by weight and bias, and with ``by_input`` by the input."""
    strides, paddings = [convolution.stride] * 2, [convolution.kernel // 2] * 2
    dilation, is_transposed, output_padding = [1, 1], False, [0, 0]
    options = strides, paddings, dilation, is_transposed, output_padding, convolution.groups, [by_input, True, True]

    def differentiate(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
        return torch.ops.aten.convolution_backward(dy, x, weight, [convolution.out], *options)

    return differentiate


# Recurrent layers, whose gradients are measured too -------------------------------------------------------------------


#: Puts the weights of a recurrent layer into one piece of memory.
_FLATTEN: Any = find_operator("aten._cudnn_rnn_flatten_weight.default")


#: Batch, steps, features of the inputs, and of the outputs.
_SIZES = (
    *((1, 8, 16, 32), (1, 32, 64, 64), (8, 32, 64, 64), (16, 8, 64, 64), (4, 48, 96, 96), (8, 16, 128, 256)),
    *((32, 16, 64, 128), (1, 64, 256, 256)),
)
#: Sizes large enough for an accelerator as well.
_LARGE_SIZES = (*_SIZES, (256, 16, 64, 64), (64, 48, 96, 96), (64, 24, 128, 256), (32, 128, 1024, 1024))
#: The gates of a cell.
_LSTM_GATES, _GRU_GATES = 4, 3


def describe_layers(is_large: bool) -> Described:
    """Yield recurrent layers, each a name, a function and its inputs; the large ones are for accelerators."""
    for batch, steps, features, width in _LARGE_SIZES if is_large else _SIZES:
        sizes = batch, steps, features, width
        yield f"lstm {batch} x {steps}", run_lstm, describe_inputs(_LSTM_GATES, *sizes)
        yield f"gru {batch} x {steps}", run_gru, describe_inputs(_GRU_GATES, *sizes)


def make_gradient(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Callable[[], object]:
    """Return a call that computes the gradients of a recurrent layer's outputs by its inputs and its four weights.

    The input comes first in ``inputs``, and the weights last. The forward pass runs once, and its graph is kept.
    """
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    sources = [leaves[0], *leaves[-4:]]
    kept: list[torch.Tensor] = []  # the outputs, and their gradients

    def call() -> object:
        with torch.enable_grad():
            if not kept:
                outputs = function(*leaves)[0]
                kept.extend((outputs, torch.ones_like(outputs)))
            return torch.autograd.grad(kept[0], sources, kept[1], retain_graph=True)

    return call


def describe_inputs(gates: int, batch: int, steps: int, features: int, width: int) -> Operands:
    """Return the inputs, the first states and the weights of an LSTM (4 gates) or a GRU (3)."""
    rows = gates * width
    states = tuple(random(1, batch, width) for _ in range(2 if gates == _LSTM_GATES else 1))
    weights = random(rows, features), random(rows, width), random(rows), random(rows)
    return (random(batch, steps, features), *states, *weights)


def run_lstm(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, *weights: torch.Tensor) -> Any:
    """Run a layer of an LSTM over inputs that begin with the batch; if gradients are on, in training mode."""
    _lay_out_for_cudnn("LSTM", x, weights)
    return torch.lstm(x, (h, c), weights, *_make_options())


def run_gru(x: torch.Tensor, h: torch.Tensor, *weights: torch.Tensor) -> Any:
    """Run a layer of a GRU over inputs that begin with the batch; if gradients are on, in training mode."""
    _lay_out_for_cudnn("GRU", x, weights)
    return torch.gru(x, h, weights, *_make_options())


def _make_options() -> tuple[bool, int, float, bool, bool, bool]:
    """Return the arguments of torch's recurrent operators after the weights."""
    has_biases, layers, dropout, is_bidirectional, is_batch_first = True, 1, 0.0, False, True
    return has_biases, layers, dropout, torch.is_grad_enabled(), is_bidirectional, is_batch_first


def _lay_out_for_cudnn(kind: str, x: torch.Tensor, weights: tuple[torch.Tensor, ...]) -> None:
    """Put a layer's weights into one piece of memory for cuDNN, like torch's own layers.

    Otherwise every call copies them. Weights that an earlier call has put there stay.
    """
    has_memory = type(x) is torch.Tensor  # in a trace it is another class
    if not has_memory or not x.is_cuda or not cudnn.is_acceptable(x):
        return
    if len({weight.untyped_storage().data_ptr() for weight in weights}) > 1:
        with torch.no_grad():
            mode, width = cudnn.rnn.get_cudnn_mode(kind), weights[1].shape[1]
            projection, layers, is_batch_first, is_bidirectional = 0, 1, True, False
            sizes = len(weights), x.shape[-1], mode, width, projection, layers
            _FLATTEN(list(weights), *sizes, is_batch_first, is_bidirectional)
