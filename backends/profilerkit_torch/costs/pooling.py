"""Pooling and resampling: what goes into each output element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .registry import Cost, Shape, register_free, register_op_cost, register_op_costs


def _window(kernel: int | Sequence[int], dimensions: int) -> int:
    sizes = (kernel,) if isinstance(kernel, int) else tuple(kernel)
    return math.prod(sizes * dimensions if len(sizes) == 1 else sizes)


def _first(out: Any) -> Shape:
    """Return the pooled values' shape where the operator returns their indices too."""
    first: Shape = out if isinstance(out, Shape) else out[0]
    return first


def _register_pooling(dimensions: int) -> None:
    def pool(x: Shape, kernel: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """One comparison or addition for each element of the window, the average's division included."""
        return Cost(0, _first(out).numel * _window(kernel, dimensions))

    def adaptive_pool(x: Shape, size: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """One comparison or addition for each element of each window.

        Window i of n over a length covers ``floor(i * length / n)`` to ``ceil((i + 1) * length / n)``.
        """
        pooled = _first(out)
        covered = math.prod(
            sum(-(-(i + 1) * length // n) - i * length // n for i in range(n))
            for length, n in zip(x[-dimensions:], pooled[-dimensions:], strict=True)
        )
        return Cost(0, Shape(x[:-dimensions]).numel * covered)

    for name in (f"max_pool{dimensions}d", f"max_pool{dimensions}d_with_indices", f"avg_pool{dimensions}d"):
        register_op_cost(f"aten::{name}", pool)
    register_op_cost(f"aten::quantized_max_pool{dimensions}d", pool)
    for name in (f"adaptive_avg_pool{dimensions}d", f"adaptive_max_pool{dimensions}d"):
        register_op_cost(f"aten::{name}", adaptive_pool)
    if dimensions > 1:
        register_op_cost(f"aten::_adaptive_avg_pool{dimensions}d", adaptive_pool)
        register_op_cost(f"aten::fractional_max_pool{dimensions}d", pool)
        register_op_cost(f"aten::mkldnn_max_pool{dimensions}d", pool)
    if dimensions == 2:
        register_op_cost("aten::mkldnn_adaptive_avg_pool2d", adaptive_pool)


for _dimensions in (1, 2, 3):
    _register_pooling(_dimensions)


def _register_resampling(name: str, per_output: int) -> None:
    @register_op_cost(f"aten::{name}")
    def resample(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
        """A weighted sum of the neighbours: as many products as there are, and one addition fewer."""
        return Cost(0, per_output * out.numel)


for _name, _neighbours in (("linear1d", 2), ("bilinear2d", 4), ("trilinear3d", 8), ("bicubic2d", 16)):
    _register_resampling(f"upsample_{_name}", 2 * _neighbours - 1)


def _register_sampling(dimensions: int) -> None:
    @register_op_cost(f"aten::grid_sampler_{dimensions}d")
    def grid_sampler(x: Shape, grid: Shape, mode: int, *_: Any, out: Shape, **__: Any) -> Cost:
        """A weighted sum of the neighbours: 2 in each dimension (linear), 4 (cubic); the nearest takes none."""
        neighbours = {0: 2, 1: 1, 2: 4}[mode] ** dimensions
        return Cost(0, (2 * neighbours - 1) * out.numel if neighbours > 1 else 0)


for _dimensions in (2, 3):
    _register_sampling(_dimensions)


def _register_smooth_resampling(name: str, reach: int) -> None:
    @register_op_cost(f"aten::{name}")
    def resample(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
        """A weighted sum along the width, then one along the height; both reach further the more is made smaller.

        The sum has ``reach * max(1, length / new length)`` products, rounded up, and one addition fewer.
        """
        height, width = (math.ceil(reach * max(1.0, x[place] / out[place])) for place in (-2, -1))
        along_width = Shape((*x[:-1], out[-1])).numel
        return Cost(0, along_width * (2 * width - 1) + out.numel * (2 * height - 1))


for _name, _reach in (("bilinear", 2), ("bicubic", 4), ("lanczos", 6)):
    if hasattr(torch.ops.aten, f"_upsample_{_name}2d_aa"):
        _register_smooth_resampling(f"_upsample_{_name}2d_aa", _reach)


@register_op_costs("aten::cudnn_grid_sampler", "aten::_grid_sampler_2d_cpu_fallback")
def bilinear_grid_sampler(x: Shape, grid: Shape, mode: int = 0, *_: Any, out: Shape, **__: Any) -> Cost:
    """A weighted sum of 4 neighbours (16, cubic): as many products, and an addition fewer; the nearest takes none."""
    return Cost(0, {0: 7, 1: 0, 2: 31}[mode] * out.numel)


@register_op_cost("aten::cudnn_affine_grid_generator")
@register_op_cost("aten::affine_grid_generator")
def affine_grid(theta: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Each point of the grid, with a 1 added, by a ``(d, d + 1)`` matrix: d * (d + 1) multiply-accumulates."""
    return Cost.of_macs(out.numel * theta[-1])


@register_op_costs("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    weight: Shape,
    indices: Shape,
    offsets: Any,
    scale: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Shape | None = None,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """One addition (or comparison) for each element of each row that is looked up; with weights a product more."""
    return Cost(0, indices.numel * weight[-1] * (1 + (per_sample_weights is not None)))


register_free(*(f"aten::{kind}{d}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for d in (1, 2, 3)))
