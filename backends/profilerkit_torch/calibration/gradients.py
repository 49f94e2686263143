"""Operators of training that a calibration measures: gradients, and normalization by the statistics of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .operands import Described, indices, positive, random, statistic

__all__ = ["describe_gradients", "make_gradient"]

_ATEN = torch.ops.aten
#: The elements of traffic.
_ELEMENTS = (64, 2**13, 2**17, 2**20, 2**22)
#: Images: samples, channels, size.
_IMAGES = ((1, 8, 8), (4, 32, 16), (4, 64, 28), (16, 64, 32))
#: What fills an accelerator as well.
_LARGE_ELEMENTS, _LARGE_IMAGES = (2**25,), ((256, 32, 32), (64, 64, 56), (64, 256, 56))


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


def describe_gradients(is_large: bool) -> Described:
    """Yield gradients of activations, normalization and pooling, each a name, a function and its inputs.

    The large ones are for accelerators. A function takes the gradient of the operator's output first, then what its
    forward pass had.
    """
    for elements in _ELEMENTS + _LARGE_ELEMENTS if is_large else _ELEMENTS:
        rows, width = max(1, elements // 64), min(elements, 64)
        x, incoming, scale, row = random(rows, width), random(rows, width), random(width), statistic(rows, 1)
        yield f"gradient of gelu {elements}", _ATEN.gelu_backward, (incoming, x)
        yield f"gradient of layer norm {elements}", _layer_norm_gradient, (incoming, x, row, row, scale, scale)
        yield f"gradient of softmax {elements}", _softmax_gradient, (incoming, x)
    for samples, channels, size in _IMAGES + _LARGE_IMAGES if is_large else _IMAGES:
        x, incoming = random(samples, channels, size, size), random(samples, channels, size, size)
        number, variance, saved = random(channels), positive(channels), statistic(channels)
        pooled = random(samples, channels, size // 2, size // 2)
        corners = indices(1, *pooled.shape)
        yield f"statistics {x.shape}", _normalize_by_batch, (x, number, number, number, variance)
        yield (
            f"gradient of batch norm {x.shape}",
            _batch_norm_gradient,
            (incoming, x, number, number, variance, saved, saved),
        )
        yield f"gradient of max pool {x.shape}", _max_pool_gradient, (pooled, x, corners)
        yield f"gradient of upsampling {x.shape}", _upsample_gradient, (incoming,)


def _layer_norm_gradient(incoming: Any, x: Any, mean: Any, deviation: Any, weight: Any, bias: Any) -> Any:
    needed = [True, True, True]
    return _ATEN.native_layer_norm_backward(incoming, x, [x.shape[-1]], mean, deviation, weight, bias, needed)


def _softmax_gradient(incoming: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = _ATEN._softmax_backward_data(incoming, outputs, -1, outputs.dtype)
    return result


def _normalize_by_batch(x: Any, weight: Any, bias: Any, mean: Any, variance: Any) -> Any:
    return _ATEN.native_batch_norm(x, weight, bias, mean, variance, True, 0.1, 1e-5)


def _batch_norm_gradient(incoming: Any, x: Any, weight: Any, mean: Any, variance: Any, saved: Any, inverse: Any) -> Any:
    needed = [True, True, True]
    return _ATEN.native_batch_norm_backward(incoming, x, weight, mean, variance, saved, inverse, True, 1e-5, needed)


def _max_pool_gradient(incoming: torch.Tensor, x: torch.Tensor, largest: torch.Tensor) -> Any:
    """Return the gradient of a pool of 2 by 2; ``largest`` has the index of the largest element of each."""
    return _ATEN.max_pool2d_with_indices_backward(incoming, x, [2, 2], [2, 2], [0, 0], [1, 1], False, largest)


def _upsample_gradient(incoming: torch.Tensor) -> Any:
    """Return the gradient of an image of half the size."""
    samples, channels, height, width = incoming.shape
    size, half = [height, width], [samples, channels, height // 2, width // 2]
    return _ATEN.upsample_nearest2d_backward(incoming, size, half, 2.0, 2.0)
