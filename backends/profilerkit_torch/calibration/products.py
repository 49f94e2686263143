"""Products and attention that a calibration measures."""

from __future__ import annotations

from itertools import product

import torch
from torch.nn import functional

from .operands import Described, random

__all__ = ["describe_attention", "describe_products"]

#: Products: rows, and (columns, depth).
_ROWS = (1, 4, 16, 64, 256, 1024)
_WEIGHTS = ((16, 16), (64, 64), (256, 64), (64, 256), (256, 256), (768, 768), (3072, 768), (768, 3072))
#: A matrix that no cache holds (256 MiB in float32), and the rows it is multiplied with: as language models decode.
_LARGE_MATRIX, _FEW_ROWS = (8192, 8192), (1, 4, 16)
#: Products of little depth, as gradients of weights are for few samples: (rows, columns), and depths.
_SHALLOW, _DEPTHS = ((64, 64), (256, 256), (1024, 256), (1024, 1024)), (1, 4, 16)
#: Batched products: batch, rows, columns, depth.
_BATCHED = (
    (4, 16, 16, 16),
    (64, 16, 16, 16),
    (12, 64, 64, 64),
    (12, 197, 64, 197),
    (48, 64, 64, 64),
    (8, 256, 256, 64),
)
#: Attention: batch, heads, length, width of a head.
_ATTENTION = (
    (1, 4, 16, 16),
    (1, 4, 64, 32),
    (8, 4, 32, 32),
    (1, 12, 64, 64),
    (1, 12, 197, 64),
    (4, 8, 128, 64),
    (1, 8, 512, 64),
)
#: What fills a device of its own as well: it reaches its best rates at sizes that would take a CPU seconds.
_LARGE_ROWS, _LARGE_WEIGHTS = (512, 4096), ((1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (8192, 8192))
_LARGE_BATCHED = ((256, 128, 128, 64), (96, 512, 512, 64), (32, 1024, 1024, 128))
_LARGE_ATTENTION = ((64, 8, 64, 64), (16, 12, 256, 64), (8, 12, 512, 64), (4, 16, 1024, 64), (1, 32, 2048, 128))


def describe_products(is_large: bool) -> Described:
    """Yield products, each a name, a function and its inputs; the large ones are for a device of its own."""
    sizes = [(rows, *weight) for weight in _WEIGHTS for rows in _ROWS]
    sizes += [(rows, *_LARGE_MATRIX) for rows in _FEW_ROWS]
    sizes += [(*output, depth) for output, depth in product(_SHALLOW, _DEPTHS)]
    sizes += [(rows, *weight) for rows, weight in product(_LARGE_ROWS, _LARGE_WEIGHTS) if is_large]
    for rows, columns, depth in sizes:
        tensors = random(rows, depth), random(columns, depth), random(columns)
        yield f"linear {rows} x {columns} x {depth}", functional.linear, tensors
    for batch, rows, columns, depth in _BATCHED + _LARGE_BATCHED * is_large:
        yield f"bmm {batch} x {rows}", torch.bmm, (random(batch, rows, depth), random(batch, depth, columns))


def describe_attention(is_large: bool) -> Described:
    """Yield attention in one operator, each a name, a function and its inputs; the large ones as above."""
    for batch, heads, length, width in _ATTENTION + _LARGE_ATTENTION * is_large:
        tensors = tuple(random(batch, heads, length, width) for _ in range(3))
        yield f"attention {tensors[0].shape}", functional.scaled_dot_product_attention, tensors
