"""Resampling of images, and sampling at points, with their gradients: which operator goes to which formula."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from profilerkit.costs import pooling

from .families import register_existing, register_free, register_op_costs, register_per_element
from .registry import Cost, Shape, register_op_cost

# Resampling -----------------------------------------------------------------------------------------------------------

#: The neighbours of an output element in each way of resampling.
_NEIGHBOURS = {"linear1d": 2, "bilinear2d": 4, "trilinear3d": 8, "bicubic2d": 16}


for _name, _neighbours in _NEIGHBOURS.items():
    # A weighted sum of the neighbours; a product and an addition for each neighbour of each gradient.
    register_per_element({f"upsample_{_name}": partial(pooling.resample, neighbours=_neighbours)}, argument=None)
    register_per_element(
        {f"upsample_{_name}_backward": partial(pooling.resample_gradient, neighbours=_neighbours)}, argument=0
    )

register_free("aten", "upsample_nearest1d upsample_nearest2d upsample_nearest3d")
register_free("aten", "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d")

#: How many neighbours an antialiased resampling has in each dimension that does not shrink.
_REACH = {"bilinear": 2, "bicubic": 4, "lanczos": 6}


def _price_smooth_resampling(reach: int, x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """A weighted sum along the width, then one along the height."""
    height, width = (pooling.smooth_reach(reach, x[axis], out[axis]) for axis in (-2, -1))
    along_width = Shape((*x[:-1], out[-1])).numel
    return pooling.smooth_resample(along_width, width, out.numel, height)


def _price_smooth_gradient(reach: int, dy: Shape, size: Any, input_size: Sequence[int], *_: Any, out: Shape) -> Cost:
    """A product and an addition for each neighbour, along the height of each gradient, then along the width."""
    height, width = (pooling.smooth_reach(reach, input_size[axis], dy[axis]) for axis in (-2, -1))
    along_height = Shape((*input_size[:-1], dy[-1])).numel
    return pooling.smooth_resample_gradient(dy.numel, height, along_height, width)


for _name, _reach in _REACH.items():
    register_existing(partial(_price_smooth_resampling, _reach), f"_upsample_{_name}2d_aa")
    register_existing(partial(_price_smooth_gradient, _reach), f"_upsample_{_name}2d_aa_backward")

# Sampling at the points of a grid -------------------------------------------------------------------------------------

#: The neighbours of a point in each dimension, by torch's number for linear, nearest and cubic.
_SAMPLED = {0: 2, 1: 1, 2: 4}
_LINEAR = 0


def _count_gradients(dy: Shape, dimensions: int, mode: int, by_input: bool = True, by_grid: bool = True) -> Cost:
    return pooling.grid_sample_gradient(dy.numel, _SAMPLED[mode] ** dimensions, dimensions, by_input, by_grid)


def _price_samples(dimensions: int, x: Shape, grid: Shape, mode: int = _LINEAR, *_: Any, out: Shape, **__: Any) -> Cost:
    """A weighted sum of the neighbours, linear by default."""
    return pooling.resample(out.numel, _SAMPLED[mode] ** dimensions)


def _price_asked_gradients(
    dimensions: int,
    dy: Shape,
    x: Shape,
    grid: Shape,
    mode: int,
    padding: Any,
    corners: Any,
    output_mask: Any,
    *,
    out: Any,
) -> Cost:
    """Return the cost of the gradients in ``output_mask``."""
    return _count_gradients(dy, dimensions, mode, *output_mask)


for _dimensions in (2, 3):
    register_op_cost(f"aten::grid_sampler_{_dimensions}d", partial(_price_samples, _dimensions))
    register_op_cost(f"aten::grid_sampler_{_dimensions}d_backward", partial(_price_asked_gradients, _dimensions))
register_op_costs("aten::cudnn_grid_sampler", "aten::_grid_sampler_2d_cpu_fallback")(partial(_price_samples, 2))


@register_op_cost("aten::_grid_sampler_2d_cpu_fallback_backward")
def sample_image_gradient(dy: Shape, x: Shape, grid: Shape, mode: int, *_: Any, out: Any) -> Cost:
    """Return the cost of both gradients, which the operator always returns."""
    return _count_gradients(dy, 2, mode)


@register_op_cost("aten::cudnn_grid_sampler_backward")
def cudnn_grid_sampler_gradient(x: Shape, grid: Shape, dy: Shape, *, out: Any) -> Cost:
    """Return the cost of both gradients, which the operator always returns; it is bilinear."""
    return _count_gradients(dy, 2, _LINEAR)


@register_op_costs("aten::cudnn_affine_grid_generator", "aten::affine_grid_generator")
def affine_grid(theta: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Each point of the grid, with a 1 added, by a ``(d, d + 1)`` matrix."""
    return pooling.affine_grid(out.numel, theta[-1])


@register_op_cost("aten::cudnn_affine_grid_generator_backward")
def affine_grid_gradient(dy: Shape, *_: Any, out: Shape) -> Cost:
    """Each point of the grid, with a 1 added, by its gradient: as much as the forward pass."""
    return pooling.affine_grid(dy.numel, out[-1])
