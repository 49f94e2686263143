"""Products and attention that a calibration measures.

The sizes are those of small networks, and of usual transformers: 197 tokens of 768 numbers are those of a ViT, 64 is
the width of most heads. The large ones are for accelerators, which reach their best rates at sizes that would take a
CPU seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional

from .operands import Described, random

__all__ = ["describe_attention", "describe_products"]


class _Linear(NamedTuple):
    """A product of a matrix with the weights of a layer: rows, outputs of the layer, inputs of the layer."""

    rows: int
    columns: int
    depth: int


class _Batched(NamedTuple):
    """Products of as many pairs of matrices."""

    batch: int
    rows: int
    columns: int
    depth: int


class _Attention(NamedTuple):
    batch: int
    heads: int
    length: int
    width: int


#: The columns and the depth of products with many and few rows.
_WEIGHTS = ((16, 16), (64, 64), (256, 64), (64, 256), (256, 256), (768, 768), (3072, 768), (768, 3072))
_LARGE_WEIGHTS = ((1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (8192, 8192))
#: The rows and the columns of products with little depth, as gradients of weights are for few samples.
_SHALLOW = ((64, 64), (256, 256), (1024, 256), (1024, 1024))

_LINEAR = (
    *(_Linear(rows, *weight) for weight in _WEIGHTS for rows in (1, 4, 16, 64, 256, 1024)),
    # A matrix that no cache holds (256 MiB in float32), with few rows: as language models decode.
    *(_Linear(rows, 8192, 8192) for rows in (1, 4, 16)),
    *(_Linear(*output, depth) for output in _SHALLOW for depth in (1, 4, 16)),
)
_LARGE_LINEAR = tuple(_Linear(rows, *weight) for rows in (512, 4096) for weight in _LARGE_WEIGHTS)
_BATCHED = (
    _Batched(4, 16, 16, 16),
    _Batched(64, 16, 16, 16),
    _Batched(12, 64, 64, 64),
    _Batched(12, 197, 64, 197),
    _Batched(48, 64, 64, 64),
    _Batched(8, 256, 256, 64),
)
_LARGE_BATCHED = (_Batched(256, 128, 128, 64), _Batched(96, 512, 512, 64), _Batched(32, 1024, 1024, 128))
_ATTENTION = (
    _Attention(1, 4, 16, 16),
    _Attention(1, 4, 64, 32),
    _Attention(8, 4, 32, 32),
    _Attention(1, 12, 64, 64),
    _Attention(1, 12, 197, 64),
    _Attention(4, 8, 128, 64),
    _Attention(1, 8, 512, 64),
)
_LARGE_ATTENTION = (
    _Attention(64, 8, 64, 64),
    _Attention(16, 12, 256, 64),
    _Attention(8, 12, 512, 64),
    _Attention(4, 16, 1024, 64),
    _Attention(1, 32, 2048, 128),
)


def describe_products(is_large: bool) -> Described:
    """Yield products, each a name, a function and its inputs; with those for accelerators if ``is_large``."""
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
