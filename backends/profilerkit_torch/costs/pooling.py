"""Pooling, resampling and looking up, and their gradients: which operator goes to which formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from profilerkit.costs import pooling

from .registry import Cost, Shape, register_existing, register_free, register_op_cost, register_op_costs


def _window(kernel: int | Sequence[int], dimensions: int) -> int:
    sizes = (kernel,) if isinstance(kernel, int) else tuple(kernel)
    return math.prod(sizes * dimensions if len(sizes) == 1 else sizes)


def _first(out: Any) -> Shape:
    """Return the pooled values' shape where the operator returns their indices too."""
    first: Shape = out if isinstance(out, Shape) else out[0]
    return first


def _count_covered(x: Shape, pooled: Shape, dimensions: int) -> int:
    """Return the elements of all windows of an adaptive pooling."""
    lengths = zip(x[-dimensions:], pooled[-dimensions:], strict=True)
    return Shape(x[:-dimensions]).numel * pooling.adaptive_windows(lengths)


def _register_pooling(kind: str, dimensions: int) -> None:
    average = kind == "avg"

    def pool(x: Shape, kernel: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """One comparison or addition for each element of the window."""
        return pooling.pool(_first(out).numel, _window(kernel, dimensions), average)

    def adaptive_pool(x: Shape, size: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """One comparison or addition for each element of each window."""
        return pooling.pool(_count_covered(x, _first(out), dimensions), 1, average)

    suffix = f"{kind}_pool{dimensions}d"
    names = [suffix]
    if not average:
        names += [f"{suffix}_with_indices", f"quantized_{suffix}", f"mkldnn_{suffix}", f"fractional_{suffix}"]
    register_existing(pool, *names)
    register_existing(adaptive_pool, f"adaptive_{suffix}", f"_adaptive_{suffix}", f"mkldnn_adaptive_{suffix}")


for _kind in ("avg", "max"):
    for _dimensions in (1, 2, 3):
        _register_pooling(_kind, _dimensions)


#: The neighbours of an output element in each way of resampling.
_NEIGHBOURS = {"linear1d": 2, "bilinear2d": 4, "trilinear3d": 8, "bicubic2d": 16}
#: How many neighbours an antialiased resampling has in each dimension where it does not shrink.
_REACH = {"bilinear": 2, "bicubic": 4, "lanczos": 6}


def _register_resampling(name: str, neighbours: int) -> None:
    @register_op_cost(f"aten::upsample_{name}")
    def resample(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
        """A weighted sum of the neighbours."""
        return pooling.resample(out.numel, neighbours)

    @register_op_cost(f"aten::upsample_{name}_backward")
    def gradient(dy: Shape, *_: Any, out: Shape) -> Cost:
        """A product and an addition for each neighbour of each gradient."""
        return pooling.resample_gradient(dy.numel, neighbours)


for _name, _neighbours in _NEIGHBOURS.items():
    _register_resampling(_name, _neighbours)


def _register_smooth_resampling(name: str, reach: int) -> None:
    @register_op_cost(f"aten::{name}")
    def resample(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
        """A weighted sum along the width, then one along the height."""
        height, width = (pooling.smooth_reach(reach, x[axis], out[axis]) for axis in (-2, -1))
        return pooling.smooth_resample(Shape((*x[:-1], out[-1])).numel, width, out.numel, height)

    @register_op_cost(f"aten::{name}_backward")
    def gradient(dy: Shape, size: Any, input_size: Sequence[int], *_: Any, out: Shape) -> Cost:
        """A product and an addition for each neighbour, along the height of each gradient, then along the width."""
        height, width = (pooling.smooth_reach(reach, input_size[axis], dy[axis]) for axis in (-2, -1))
        along_height = Shape((*input_size[:-1], dy[-1])).numel
        return pooling.smooth_resample_gradient(dy.numel, height, along_height, width)


for _name, _reach in _REACH.items():
    if hasattr(torch.ops.aten, f"_upsample_{_name}2d_aa"):
        _register_smooth_resampling(f"_upsample_{_name}2d_aa", _reach)

#: The neighbours of a point in each dimension, by torch's number for linear, nearest and cubic.
_SAMPLED = {0: 2, 1: 1, 2: 4}


def _grid_gradient(dy: Shape, dimensions: int, mode: int, by_input: bool, by_grid: bool) -> Cost:
    return pooling.grid_sample_gradient(dy.numel, _SAMPLED[mode] ** dimensions, dimensions, by_input, by_grid)


def _register_sampling(dimensions: int) -> None:
    @register_op_cost(f"aten::grid_sampler_{dimensions}d")
    def grid_sampler(x: Shape, grid: Shape, mode: int, *_: Any, out: Shape, **__: Any) -> Cost:
        """A weighted sum of the neighbours."""
        return pooling.resample(out.numel, _SAMPLED[mode] ** dimensions)

    @register_op_cost(f"aten::grid_sampler_{dimensions}d_backward")
    def gradient(
        dy: Shape, x: Shape, grid: Shape, mode: int, padding: Any, corners: Any, output_mask: Any, *, out: Any
    ) -> Cost:
        """Return the cost of the gradients in ``output_mask``."""
        return _grid_gradient(dy, dimensions, mode, *output_mask)


for _dimensions in (2, 3):
    _register_sampling(_dimensions)


@register_op_costs("aten::cudnn_grid_sampler", "aten::_grid_sampler_2d_cpu_fallback")
def grid_sampler_of_images(x: Shape, grid: Shape, mode: int = 0, *_: Any, out: Shape, **__: Any) -> Cost:
    """A weighted sum of the neighbours, linear by default."""
    return pooling.resample(out.numel, _SAMPLED[mode] ** 2)


@register_op_cost("aten::_grid_sampler_2d_cpu_fallback_backward")
def grid_sampler_fallback_gradient(dy: Shape, x: Shape, grid: Shape, mode: int, *_: Any, out: Any) -> Cost:
    """As the others; it returns both gradients always."""
    return _grid_gradient(dy, 2, mode, True, True)


@register_op_cost("aten::cudnn_grid_sampler_backward")
def cudnn_grid_sampler_gradient(x: Shape, grid: Shape, dy: Shape, *, out: Any) -> Cost:
    """As the others; it is bilinear, and returns both gradients always."""
    return _grid_gradient(dy, 2, 0, True, True)


@register_op_costs("aten::cudnn_affine_grid_generator", "aten::affine_grid_generator")
def affine_grid(theta: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Each point of the grid, with a 1 added, by a ``(d, d + 1)`` matrix."""
    return pooling.affine_grid(out.numel, theta[-1])


@register_op_cost("aten::cudnn_affine_grid_generator_backward")
def affine_grid_gradient(dy: Shape, *_: Any, out: Shape) -> Cost:
    """Each point of the grid, with a 1 added, by its gradient: as much as the forward pass."""
    return pooling.affine_grid(dy.numel, out[-1])


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
    """Return the cost for each element of each row that is looked up; mode 2 is the maximum."""
    return pooling.embedding_bag(indices.numel * weight[-1], per_sample_weights is not None, maximum=mode == 2)


register_free(
    "aten",
    """
    upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d
    """,
)
