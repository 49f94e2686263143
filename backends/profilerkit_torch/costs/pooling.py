"""Pooling and resampling: what goes into each output element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .registry import Cost, Shape, register_free, register_op_cost


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
    for name in (f"adaptive_avg_pool{dimensions}d", f"adaptive_max_pool{dimensions}d"):
        register_op_cost(f"aten::{name}", adaptive_pool)
    if dimensions > 1:
        register_op_cost(f"aten::_adaptive_avg_pool{dimensions}d", adaptive_pool)


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


@register_op_cost("aten::affine_grid_generator")
def affine_grid(theta: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Each point of the grid, with a 1 added, by a ``(d, d + 1)`` matrix: d * (d + 1) multiply-accumulates."""
    return Cost.of_macs(out.numel * theta[-1])


@register_op_cost("aten::_embedding_bag")
@register_op_cost("aten::_embedding_bag_forward_only")
def embedding_bag(weight: Shape, indices: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition (or comparison) for each element of each row that is looked up."""
    return Cost(0, indices.numel * weight[-1])


register_free(*(f"aten::{kind}{d}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for d in (1, 2, 3)))
