"""Pooling, looking up rows that are pooled, and gradients, also of padding: which operator goes to which formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from profilerkit.costs import pooling

from .families import register_by_name, register_existing, register_free, register_per_element
from .registry import Cost, Shape

#: The mode of looking up rows that takes their maximum.
_MAXIMUM = 2


def _count_window(kernel: int | Sequence[int], dimensions: int) -> int:
    """Return the elements of a window; one size may be given for all dimensions."""
    sizes = (kernel,) if isinstance(kernel, int) else tuple(kernel)
    return math.prod(sizes * dimensions if len(sizes) == 1 else sizes)


def _count_covered(x: Shape, pooled: Shape, dimensions: int) -> int:
    """Return the elements of all windows of an adaptive pooling."""
    lengths = zip(x[-dimensions:], pooled[-dimensions:], strict=True)
    return Shape(x[:-dimensions]).numel * pooling.adaptive_windows(lengths)


def _take_pooled(out: Any) -> Shape:
    """Return the shape of the pooled values, also if the operator returns their indices too."""
    pooled: Shape = out if isinstance(out, Shape) else out[0]
    return pooled


def _pool(average: bool, dimensions: int, x: Shape, kernel: Any, *_: Any, out: Any, **__: Any) -> Cost:
    """One comparison or addition for each element of the window."""
    return pooling.pool(_take_pooled(out).numel, _count_window(kernel, dimensions), average)


def _pool_adaptively(average: bool, dimensions: int, x: Shape, size: Any, *_: Any, out: Any, **__: Any) -> Cost:
    """One comparison or addition for each element of each window."""
    return pooling.pool(_count_covered(x, _take_pooled(out), dimensions), 1, average)


def _average_gradient(dimensions: int, dy: Shape, x: Shape, kernel: Any, *_: Any, out: Shape) -> Cost:
    """One addition for each element of the window of each gradient."""
    return pooling.pool_gradient(dy.numel * _count_window(kernel, dimensions))


def _adaptive_average_gradient(dimensions: int, dy: Shape, x: Shape, *, out: Shape) -> Cost:
    """One addition for each element of each window."""
    return pooling.pool_gradient(_count_covered(x, dy, dimensions))


# Torch lacks some kinds of pooling for some dimensions: `register_existing` leaves them out.
for _dimensions in (1, 2, 3):
    for _name, _average in ((f"avg_pool{_dimensions}d", True), (f"max_pool{_dimensions}d", False)):
        register_existing(
            partial(_pool, _average, _dimensions),
            *(_name, f"{_name}_with_indices", f"quantized_{_name}", f"mkldnn_{_name}", f"fractional_{_name}"),
        )
        register_existing(
            partial(_pool_adaptively, _average, _dimensions),
            *(f"adaptive_{_name}", f"_adaptive_{_name}", f"mkldnn_adaptive_{_name}"),
        )
    register_existing(partial(_average_gradient, _dimensions), f"avg_pool{_dimensions}d_backward")
    register_existing(
        partial(_adaptive_average_gradient, _dimensions),
        *(f"_adaptive_avg_pool{_dimensions}d_backward", f"mkldnn_adaptive_avg_pool{_dimensions}d_backward"),
    )


@register_by_name("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    *, weight: Shape, indices: Shape, mode: int = 0, per_sample_weights: Shape | None = None, out: Any, **_: Any
) -> Cost:
    """Return the cost for each element of each row that is looked up."""
    return pooling.embedding_bag(indices.numel * weight[-1], per_sample_weights is not None, maximum=mode == _MAXIMUM)


# Gradients ------------------------------------------------------------------------------------------------------------


# The gradient of an element that was read once is moved, which is free; that of an element read several times is a sum.
register_free(
    "aten",
    """
    select_backward slice_backward diagonal_backward _nested_select_backward masked_scatter_backward
    _nested_sum_backward _sparse_sum_backward
    """,
)


#: Places that get several gradients: the maximum of several windows, a border that is repeated, a pixel.
_ADDED_UP = """
    max_pool2d max_pool2d_with_indices max_pool3d_with_indices mkldnn_max_pool2d mkldnn_max_pool3d
    adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d unfold
"""
register_per_element({f"{name}_backward": pooling.pool_gradient for name in _ADDED_UP.split()})


@register_by_name("aten::embedding_dense_backward")
def embedding_gradient(*, dy: Shape, scale_grad_by_freq: bool, out: Shape, **_: Any) -> Cost:
    """One addition for each element of the gradient, and a division if rows are scaled by their frequency."""
    return pooling.embedding_gradient(dy.numel, bool(scale_grad_by_freq))


@register_by_name("aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward")
def embedding_bag_gradient(
    *,
    dy: Shape,
    indices: Shape,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Shape | None = None,
    out: Any,
    **_: Any,
) -> Cost:
    """Return the cost: an addition for each element of each row that was looked up, a product if it was weighted.

    If the bag took the maximum, one addition for each element of the gradient.
    """
    if mode == _MAXIMUM:
        return pooling.embedding_gradient(dy.numel)
    return pooling.embedding_gradient(indices.numel * dy[-1], bool(scale_grad_by_freq), per_sample_weights is not None)


@register_by_name("aten::_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_gradient(*, dy: Shape, indices: Shape, out: Shape, **_: Any) -> Cost:
    """The product of each row that was looked up with its bag's gradient, and their sum: two for each element."""
    return pooling.bag_weights_gradient(indices.numel * dy[-1])
