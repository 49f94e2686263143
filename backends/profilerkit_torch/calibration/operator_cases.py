"""Products, attention, gradients and operators that move bytes, which a calibration measures.

The products have the sizes of small networks, and of usual transformers: a ViT has 197 tokens of 768 numbers, most
heads have a width of 64. The large products are for accelerators, which reach their best rates at sizes that would take
a CPU seconds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn import functional

from .operands import Described, indices, positive, random, statistic

__all__ = [
    "describe_attention",
    "describe_gradients",
    "describe_images",
    "describe_products",
    "describe_traffic",
]


#: The columns and the depth of products with many and few rows.
_WEIGHTS = ((16, 16), (64, 64), (256, 64), (64, 256), (256, 256), (768, 768), (3072, 768), (768, 3072))
_LARGE_WEIGHTS = ((1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (8192, 8192))
#: The rows and the columns of products with little depth, like gradients of weights for few samples.
_SHALLOW = ((64, 64), (256, 256), (1024, 256), (1024, 1024))
#: Products of a matrix with the weights of a layer: rows, outputs of the layer, inputs of the layer.
_LINEAR = (
    *((rows, *weight) for weight in _WEIGHTS for rows in (1, 4, 16, 64, 256, 1024)),
    # A matrix that no cache holds (256 MiB in float32), with few rows, like language models that decode.
    *((rows, 8192, 8192) for rows in (1, 4, 16)),
    *((*output, depth) for output in _SHALLOW for depth in (1, 4, 16)),
)
_LARGE_LINEAR = tuple((rows, *weight) for rows in (512, 4096) for weight in _LARGE_WEIGHTS)
#: Products of pairs of matrices: how many, rows, columns, depth.
_BATCHED = (
    *((4, 16, 16, 16), (64, 16, 16, 16), (12, 64, 64, 64), (12, 197, 64, 197), (48, 64, 64, 64)),
    (8, 256, 256, 64),
)
_LARGE_BATCHED = ((256, 128, 128, 64), (96, 512, 512, 64), (32, 1024, 1024, 128))
#: Attention: batch, heads, length, width.
_ATTENTION = (
    *((1, 4, 16, 16), (1, 4, 64, 32), (8, 4, 32, 32), (1, 12, 64, 64), (1, 12, 197, 64), (4, 8, 128, 64)),
    (1, 8, 512, 64),
)
_LARGE_ATTENTION = ((64, 8, 64, 64), (16, 12, 256, 64), (8, 12, 512, 64), (4, 16, 1024, 64), (1, 32, 2048, 128))


def describe_products(is_large: bool) -> Described:
    """Yield products, each a name, a function and its inputs; with ``is_large`` also products for accelerators."""
    for rows, columns, depth in _LINEAR + _LARGE_LINEAR if is_large else _LINEAR:
        tensors = random(rows, depth), random(columns, depth), random(columns)
        yield f"linear {rows} x {columns} x {depth}", functional.linear, tensors
    for batch, rows, columns, depth in _BATCHED + _LARGE_BATCHED if is_large else _BATCHED:
        yield f"bmm {batch} x {rows}", torch.bmm, (random(batch, rows, depth), random(batch, depth, columns))


def describe_attention(is_large: bool) -> Described:
    """Yield attention in one operator, each a name, a function and its inputs, as `describe_products` does."""
    for sizes in _ATTENTION + _LARGE_ATTENTION if is_large else _ATTENTION:
        tensors = random(*sizes), random(*sizes), random(*sizes)
        yield f"attention {tensors[0].shape}", functional.scaled_dot_product_attention, tensors


# Gradients, and normalization by the statistics of a batch ------------------------------------------------------------


_ATEN = torch.ops.aten
#: The elements of traffic.
_GRADIENT_ELEMENTS = (64, 2**13, 2**17, 2**20, 2**22)
#: Images: samples, channels, size.
_GRADIENT_IMAGES = ((1, 8, 8), (4, 32, 16), (4, 64, 28), (16, 64, 32))
#: Sizes large enough for an accelerator.
_LARGE_GRADIENT_ELEMENTS, _LARGE_GRADIENT_IMAGES = (2**25,), ((256, 32, 32), (64, 64, 56), (64, 256, 56))


def describe_gradients(is_large: bool) -> Described:
    """Yield gradients of activations, normalization and pooling, each a name, a function and its inputs.

    The large gradients are for accelerators. A function takes the gradient of the operator's output first, then the
    tensors of its forward pass.
    """
    for elements in _GRADIENT_ELEMENTS + _LARGE_GRADIENT_ELEMENTS if is_large else _GRADIENT_ELEMENTS:
        rows, width = max(1, elements // 64), min(elements, 64)
        x, incoming, scale, row = random(rows, width), random(rows, width), random(width), statistic(rows, 1)
        yield f"gradient of gelu {elements}", _ATEN.gelu_backward, (incoming, x)
        yield f"gradient of layer norm {elements}", _layer_norm_gradient, (incoming, x, row, row, scale, scale)
        yield f"gradient of softmax {elements}", _softmax_gradient, (incoming, x)
    for samples, channels, size in _GRADIENT_IMAGES + _LARGE_GRADIENT_IMAGES if is_large else _GRADIENT_IMAGES:
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
    """Return the gradient of a pool of 2 by 2; ``largest`` has the index of the largest element of each window."""
    return _ATEN.max_pool2d_with_indices_backward(incoming, x, [2, 2], [2, 2], [0, 0], [1, 1], False, largest)


def _upsample_gradient(incoming: torch.Tensor) -> Any:
    """Return the gradient of an image of half the size."""
    samples, channels, height, width = incoming.shape
    size, half = [height, width], [samples, channels, height // 2, width // 2]
    return _ATEN.upsample_nearest2d_backward(incoming, size, half, 2.0, 2.0)


# Operators that move bytes: element by element, row by row, and on images ---------------------------------------------


_UPSAMPLE: Any = torch.ops.aten.upsample_nearest2d.vec
#: The number of elements that an operator reads.
_ELEMENTS = (64, 2**10, 2**13, 2**15, 2**17, 2**19, 2**21, 2**23)
#: Images for normalization, pooling and upsampling: samples, channels, size.
_IMAGES = ((1, 8, 8), (1, 16, 16), (1, 32, 32), (1, 64, 56), (16, 64, 28), (16, 32, 64))
#: Sizes large enough for an accelerator.
_LARGE_ELEMENTS = (2**25, 2**27)
_LARGE_IMAGES = ((256, 32, 32), (64, 64, 56), (64, 256, 56))


def describe_traffic(is_large: bool) -> Described:
    """Yield operators on a matrix, each a name, a function and its inputs; large ones are for accelerators."""
    for elements in _ELEMENTS + _LARGE_ELEMENTS if is_large else _ELEMENTS:
        rows, width = max(1, elements // 64), min(elements, 64)
        x, scale = random(rows, width), random(width)
        yield f"add {elements}", torch.add, (x, random(rows, width))
        yield f"relu {elements}", torch.relu, (x,)
        yield f"gelu {elements}", functional.gelu, (x,)
        yield f"layer norm {elements}", _normalize_rows, (x, scale, scale)
        yield f"softmax {elements}", partial(torch.softmax, dim=-1), (x,)
        yield f"sum {elements}", partial(torch.sum, dim=1), (x,)
        yield f"copy {elements}", torch.clone, (x,)
        yield f"cat {elements}", lambda x, y: torch.cat((x, y)), (x, x)
        yield f"dropout {elements}", partial(torch.bernoulli, p=0.5), (x,)


def _normalize_rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def describe_images(is_large: bool) -> Described:
    """Yield operators on images, and embeddings, like `describe_traffic`; large ones are for accelerators."""
    for samples, channels, size in _IMAGES + _LARGE_IMAGES if is_large else _IMAGES:
        x, scale = random(samples, channels, size, size), random(channels)
        yield f"batch norm {x.shape}", functional.batch_norm, (x, scale, positive(channels), scale, scale)
        yield f"max pool {x.shape}", partial(functional.max_pool2d, kernel_size=2), (x,)
        yield f"average pool {x.shape}", partial(functional.avg_pool2d, kernel_size=2), (x,)
        yield f"upsampling {x.shape}", partial(_UPSAMPLE, output_size=None, scale_factors=[2.0, 2.0]), (x,)
    for rows, width in ((64, 16), (1024, 64), (8192, 256)):
        yield f"embedding {rows} x {width}", functional.embedding, (indices(rows, rows // 4), random(rows, width))
