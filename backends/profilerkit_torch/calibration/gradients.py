"""Operators of training that a calibration measures: gradients, and normalization by the statistics of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.backends import cudnn

from ..compat import operator
from .operands import Described, Operands, indices, positive, random, statistic

__all__ = [
    "LARGE_RECURRENT",
    "RECURRENT",
    "gradients",
    "gru",
    "lstm",
    "make_gradient",
    "recurrences",
    "recurrent_inputs",
]

_ATEN = torch.ops.aten
#: Puts the weights of a recurrent layer into one piece of memory.
_FLATTEN: Any = operator("aten._cudnn_rnn_flatten_weight.default")
#: The elements of traffic.
_ELEMENTS = (64, 2**13, 2**17, 2**20, 2**22)
#: Images: samples, channels, size.
_IMAGES = ((1, 8, 8), (4, 32, 16), (4, 64, 28), (16, 64, 32))
#: Recurrent layers: batch, steps, features in, features.
RECURRENT = (
    *((1, 8, 16, 32), (1, 32, 64, 64), (8, 32, 64, 64), (16, 8, 64, 64), (4, 48, 96, 96)),
    *((8, 16, 128, 256), (32, 16, 64, 128), (1, 64, 256, 256)),
)
#: What fills a device of its own as well.
LARGE_RECURRENT = ((256, 16, 64, 64), (64, 48, 96, 96), (64, 24, 128, 256), (32, 128, 1024, 1024))
_LARGE_ELEMENTS, _LARGE_IMAGES = (2**25,), ((256, 32, 32), (64, 64, 56), (64, 256, 56))


def gradients(is_large: bool) -> Described:
    """Yield gradients of activations, normalization and pooling, each a name, a function and its inputs.

    The large ones are for a device of its own.
    """
    for elements in _ELEMENTS + _LARGE_ELEMENTS * is_large:
        rows, width = max(1, elements // 64), min(elements, 64)
        x, y, scale, row = random(rows, width), random(rows, width), random(width), statistic(rows, 1)
        yield f"gradient of gelu {elements}", _ATEN.gelu_backward, (y, x)
        yield f"gradient of layer norm {elements}", _layer_norm, (y, x, row, row, scale, scale)
        yield f"gradient of softmax {elements}", _softmax, (y, x)
    for samples, channels, size in _IMAGES + _LARGE_IMAGES * is_large:
        x, y = random(samples, channels, size, size), random(samples, channels, size, size)
        number, variance, kept = random(channels), positive(channels), statistic(channels)
        halved = random(samples, channels, size // 2, size // 2)
        corners = indices(1, *halved.shape)
        yield f"statistics {x.shape}", _statistics, (x, number, number, number, variance)
        yield f"gradient of batch norm {x.shape}", _batch_norm, (y, x, number, number, variance, kept, kept)
        yield f"gradient of max pool {x.shape}", _max_pool, (halved, x, corners)
        yield f"gradient of upsampling {x.shape}", _upsample, (x,)


def _layer_norm(y: Any, x: Any, mean: Any, deviation: Any, weight: Any, bias: Any) -> Any:
    needed = [True, True, True]
    return _ATEN.native_layer_norm_backward(y, x, [x.shape[-1]], mean, deviation, weight, bias, needed)


def _softmax(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = _ATEN._softmax_backward_data(y, x, -1, x.dtype)
    return result


def _statistics(x: Any, weight: Any, bias: Any, mean: Any, variance: Any) -> Any:
    return _ATEN.native_batch_norm(x, weight, bias, mean, variance, True, 0.1, 1e-5)


def _batch_norm(y: Any, x: Any, weight: Any, mean: Any, variance: Any, saved: Any, inverse: Any) -> Any:
    needed = [True, True, True]
    return _ATEN.native_batch_norm_backward(y, x, weight, mean, variance, saved, inverse, True, 1e-5, needed)


def _max_pool(y: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> Any:
    return _ATEN.max_pool2d_with_indices_backward(y, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)


def _upsample(y: torch.Tensor) -> Any:
    samples, channels, height, width = y.shape
    return _ATEN.upsample_nearest2d_backward(y, [height, width], [samples, channels, height // 2, width // 2], 2.0, 2.0)


def recurrences(is_large: bool) -> Described:
    """Yield recurrent layers whose gradients are measured: a name, the function of the forward pass, and its inputs."""
    for kind, function, gates in (("lstm", lstm, 4), ("gru", gru, 3)):
        for batch, steps, features, width in RECURRENT + LARGE_RECURRENT * is_large:
            yield (
                f"gradient of {kind} {batch} x {steps}",
                function,
                recurrent_inputs(gates, batch, steps, features, width),
            )


def recurrent_inputs(gates: int, batch: int, steps: int, features: int, width: int) -> Operands:
    """Return the inputs, the first states and the weights of an LSTM (4 gates) or a GRU (3)."""
    rows = gates * width
    weights = random(rows, features), random(rows, width), random(rows), random(rows)
    states = tuple(random(1, batch, width) for _ in range(2 if gates == 4 else 1))
    return (random(batch, steps, features), *states, *weights)


def make_gradient(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Callable[[], object]:
    """Return a call that computes the gradients of the first output by the inputs and the weights.

    The forward pass runs once, and its graph is kept.
    """
    kept: list[Any] = []
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    sources = [leaves[0], *leaves[-4:]]

    def call() -> object:
        with torch.enable_grad():
            if not kept:
                result = function(*leaves)[0]
                kept.extend((result, torch.ones_like(result)))
            return torch.autograd.grad(kept[0], sources, kept[1], retain_graph=True)

    return call


def lstm(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, *weights: torch.Tensor) -> Any:
    """Run a layer of an LSTM over inputs that begin with the batch; where gradients are on, in training mode."""
    _lay_out_for_cudnn("LSTM", x, weights)
    return torch.lstm(x, (h, c), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)


def gru(x: torch.Tensor, h: torch.Tensor, *weights: torch.Tensor) -> Any:
    """Run a layer of a GRU over inputs that begin with the batch; where gradients are on, in training mode."""
    _lay_out_for_cudnn("GRU", x, weights)
    return torch.gru(x, h, weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)


def _lay_out_for_cudnn(kind: str, x: torch.Tensor, weights: tuple[torch.Tensor, ...]) -> None:
    """Put a layer's weights into one piece of memory, as torch's own layers have them for cuDNN; once for each tensor.

    Otherwise every call copies them.
    """
    if type(x) is not torch.Tensor or not x.is_cuda or not cudnn.is_acceptable(x):  # a trace has no memory
        return
    if len({weight.untyped_storage().data_ptr() for weight in weights}) > 1:
        with torch.no_grad():
            mode, width = cudnn.rnn.get_cudnn_mode(kind), weights[1].shape[1]
            _FLATTEN(list(weights), len(weights), x.shape[-1], mode, width, 0, 1, True, False)
