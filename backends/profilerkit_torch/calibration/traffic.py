"""Operators that a calibration measures for the bytes that they move: element by element, row by row, and on images."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn import functional

from .operands import Described, indices, positive, random

__all__ = ["describe_images", "describe_traffic"]

_UPSAMPLE: Any = torch.ops.aten.upsample_nearest2d.vec
#: The elements of what is read.
_ELEMENTS = (64, 2**10, 2**13, 2**15, 2**17, 2**19, 2**21, 2**23)
#: Images for normalization, pooling and upsampling: samples, channels, size.
_IMAGES = ((1, 8, 8), (1, 16, 16), (1, 32, 32), (1, 64, 56), (16, 64, 28), (16, 32, 64))
#: What fills an accelerator as well.
_LARGE_ELEMENTS = (2**25, 2**27)
_LARGE_IMAGES = ((256, 32, 32), (64, 64, 56), (64, 256, 56))


def describe_traffic(is_large: bool) -> Described:
    """Yield operators on a matrix, each a name, a function and its inputs; large ones for accelerators."""
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
        yield f"cat {elements}", _concatenate, (x, x)
        yield f"dropout {elements}", partial(torch.bernoulli, p=0.5), (x,)


def _normalize_rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def _concatenate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat((x, y))


def describe_images(is_large: bool) -> Described:
    """Yield operators on images, and embeddings, each a name, a function and its inputs; large ones as above."""
    for samples, channels, size in _IMAGES + _LARGE_IMAGES if is_large else _IMAGES:
        x, scale = random(samples, channels, size, size), random(channels)
        yield f"batch norm {x.shape}", functional.batch_norm, (x, scale, positive(channels), scale, scale)
        yield f"max pool {x.shape}", partial(functional.max_pool2d, kernel_size=2), (x,)
        yield f"average pool {x.shape}", partial(functional.avg_pool2d, kernel_size=2), (x,)
        yield f"upsampling {x.shape}", partial(_UPSAMPLE, output_size=None, scale_factors=[2.0, 2.0]), (x,)
    for rows, width in ((64, 16), (1024, 64), (8192, 256)):
        yield f"embedding {rows} x {width}", functional.embedding, (indices(rows, rows // 4), random(rows, width))
