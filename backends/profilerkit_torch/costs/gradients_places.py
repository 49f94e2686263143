"""Gradients of what takes elements from places: pooling, resampling, sampling, padding, embedding, slices.

What was taken from one place several times adds up there: one addition for each element of the gradient ``dy``, with a
product before it where the neighbours were weighted. What was taken once is moved back, which is free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .pooling import _window
from .registry import Cost, Shape, register_free, register_op_cost

register_free(
    "aten::select_backward",
    "aten::slice_backward",
    "aten::diagonal_backward",
    "aten::_nested_select_backward",
    "aten::masked_scatter_backward",
    "aten::_nested_sum_backward",
    "aten::_sparse_sum_backward",
)


def _adds_up(dy: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each element of the gradient."""
    return Cost(0, dy.numel)


#: Places that are hit more than once: the maximum of several windows, a border that is repeated, a pixel.
_ADDED_UP = (
    *(f"max_pool{d}d_with_indices_backward" for d in (2, 3)),
    *(f"adaptive_max_pool{d}d_backward" for d in (2, 3)),
    *(f"fractional_max_pool{d}d_backward" for d in (2, 3)),
    *("max_pool2d_backward", "mkldnn_max_pool2d_backward", "mkldnn_max_pool3d_backward"),
    *(f"{kind}_pad{d}d_backward" for kind in ("reflection", "replication") for d in (1, 2, 3)),
    *(f"{kind}{d}d_backward" for kind in ("upsample_nearest", "_upsample_nearest_exact") for d in (1, 2, 3)),
    "unfold_backward",
)
for _name in _ADDED_UP:
    register_op_cost(f"aten::{_name}", _adds_up)


def _register_average(dimensions: int) -> None:
    @register_op_cost(f"aten::avg_pool{dimensions}d_backward")
    def average(dy: Shape, x: Shape, kernel: int | Sequence[int], *_: Any, out: Shape) -> Cost:
        """One addition for each element of the window of each gradient."""
        return Cost(0, dy.numel * _window(kernel, dimensions))

    def adaptive_average(dy: Shape, x: Shape, *, out: Shape) -> Cost:
        """One addition for each element of each window.

        Window i of n over a length covers ``floor(i * length / n)`` to ``ceil((i + 1) * length / n)``.
        """
        covered = (
            sum(-(-(i + 1) * length // n) - i * length // n for i in range(n))
            for length, n in zip(x[-dimensions:], dy[-dimensions:], strict=True)
        )
        return Cost(0, Shape(dy[:-dimensions]).numel * math.prod(covered))

    register_op_cost(f"aten::_adaptive_avg_pool{dimensions}d_backward", adaptive_average)
    if dimensions == 2:
        register_op_cost("aten::mkldnn_adaptive_avg_pool2d_backward", adaptive_average)


for _dimensions in (2, 3):
    _register_average(_dimensions)


def _register_resampling(name: str, neighbours: int) -> None:
    @register_op_cost(f"aten::upsample_{name}_backward")
    def resampling(dy: Shape, *_: Any, out: Shape) -> Cost:
        """A product and an addition for each neighbour of each gradient."""
        return Cost(0, 2 * neighbours * dy.numel)


for _name, _neighbours in (("linear1d", 2), ("bilinear2d", 4), ("trilinear3d", 8), ("bicubic2d", 16)):
    _register_resampling(_name, _neighbours)


def _register_smooth_resampling(name: str, reach: int) -> None:
    @register_op_cost(f"aten::_upsample_{name}2d_aa_backward")
    def smooth_resampling(dy: Shape, size: Any, input_size: Sequence[int], *_: Any, out: Shape) -> Cost:
        """A product and an addition for each neighbour, along the height of each gradient, then along the width.

        There are ``reach * max(1, length / new length)`` neighbours, rounded up.
        """
        height, width = (math.ceil(reach * max(1.0, input_size[place] / dy[place])) for place in (-2, -1))
        along_height = Shape((*input_size[:-1], dy[-1])).numel
        return Cost(0, 2 * height * dy.numel + 2 * width * along_height)


for _name, _reach in (("bilinear", 2), ("bicubic", 4), ("lanczos", 6)):
    if hasattr(torch.ops.aten, f"_upsample_{_name}2d_aa_backward"):
        _register_smooth_resampling(_name, _reach)


def _sampling(dy: Shape, dimensions: int, mode: int, by_input: bool, by_grid: bool) -> Cost:
    """Each neighbour takes a product and an addition; along each dimension of the grid two products and an addition.

    The nearest has no weight: it adds up, and its place does not depend on the grid.
    """
    if mode == 1:
        return Cost(0, dy.numel * by_input)
    neighbours = (4 if mode == 2 else 2) ** dimensions
    return Cost(0, dy.numel * neighbours * (2 * by_input + 3 * dimensions * by_grid))


def _register_sampling(dimensions: int) -> None:
    @register_op_cost(f"aten::grid_sampler_{dimensions}d_backward")
    def grid_sampler(
        dy: Shape, x: Shape, grid: Shape, mode: int, padding: Any, corners: Any, wanted: Any, *, out: Any
    ) -> Cost:
        """By the input 2 for each neighbour of each gradient, by the grid 3 for each dimension."""
        return _sampling(dy, dimensions, mode, *wanted)


for _dimensions in (2, 3):
    _register_sampling(_dimensions)


@register_op_cost("aten::_grid_sampler_2d_cpu_fallback_backward")
def grid_sampler_fallback(dy: Shape, x: Shape, grid: Shape, mode: int, *_: Any, out: Any) -> Cost:
    """As the others; it returns both gradients always."""
    return _sampling(dy, 2, mode, True, True)


@register_op_cost("aten::cudnn_grid_sampler_backward")
def cudnn_grid_sampler(x: Shape, grid: Shape, dy: Shape, *, out: Any) -> Cost:
    """As the others; it is bilinear, and returns both gradients always."""
    return _sampling(dy, 2, 0, True, True)


@register_op_cost("aten::embedding_dense_backward")
def embedding(dy: Shape, indices: Shape, rows: Any, padding: Any, scaled: bool, *, out: Shape) -> Cost:
    """One addition for each element of the gradient, and a division where rows are scaled by how often they come."""
    return Cost(0, dy.numel * (1 + scaled))


@register_op_cost("aten::_embedding_bag_backward")
def embedding_bag(
    dy: Shape,
    indices: Shape,
    offsets: Any,
    bag: Any,
    size: Any,
    maxima: Any,
    rows: Any,
    scaled: bool,
    mode: int,
    sparse: Any,
    weights: Shape | None = None,
    *_: Any,
    out: Any,
) -> Cost:
    """One addition for each element of each row that was looked up, and a product where it was weighted.

    Where the bag took the maximum (mode 2), one addition for each element of the gradient.
    """
    return _bag(dy, indices, scaled, mode, weights)


@register_op_cost("aten::_embedding_bag_dense_backward")
def embedding_bag_dense(
    dy: Shape,
    indices: Shape,
    bag: Any,
    size: Any,
    maxima: Any,
    rows: Any,
    scaled: bool,
    mode: int,
    weights: Shape | None = None,
    *_: Any,
    out: Any,
) -> Cost:
    """As `embedding_bag`."""
    return _bag(dy, indices, scaled, mode, weights)


def _bag(dy: Shape, indices: Shape, scaled: bool, mode: int, weights: Shape | None) -> Cost:
    if mode == 2:
        return Cost(0, dy.numel)
    return Cost(0, indices.numel * dy[-1] * (1 + scaled + (weights is not None)))


@register_op_cost("aten::_segment_reduce_backward")
def segments(dy: Shape, y: Shape, x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """One operation for each element that was reduced: a division, comparison or product."""
    return Cost(0, x.numel)


@register_op_cost("aten::_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights(dy: Shape, rows: Shape, indices: Shape, *_: Any, out: Shape) -> Cost:
    """The product of each row that was looked up with its bag's gradient, and their sum: two for each element."""
    return Cost(0, 2 * indices.numel * dy[-1])


def _register_fake_quantisation(kind: str) -> None:
    @register_op_cost(f"aten::_fake_quantize_learnable_per_{kind}_affine_backward")
    def fake_quantisation(dy: Shape, *_: Any, out: Any) -> Cost:
        """Quantise again (divide, shift, round, two comparisons), pass or not, and the sums for scale and zero point.

        The scale's gradient is the sum of ``dy * (q - x / scale)``, three; the zero point's of ``-scale * dy``, two.
        """
        return Cost(0, 11 * dy.numel)


for _name in ("tensor", "channel"):
    _register_fake_quantisation(_name)
