"""Pooling, and looking up rows that are pooled: which operator goes to which formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profilerkit.costs import pooling

from .registry import Cost, Shape, register_by_name, register_existing

__all__ = ["count_covered", "count_window"]


def count_window(kernel: int | Sequence[int], dimensions: int) -> int:
    """Return the elements of a window, whose one size may hold for all dimensions."""
    sizes = (kernel,) if isinstance(kernel, int) else tuple(kernel)
    return math.prod(sizes * dimensions if len(sizes) == 1 else sizes)


def count_covered(x: Shape, pooled: Shape, dimensions: int) -> int:
    """Return the elements of all windows of an adaptive pooling."""
    lengths = zip(x[-dimensions:], pooled[-dimensions:], strict=True)
    return Shape(x[:-dimensions]).numel * pooling.adaptive_windows(lengths)


def _take_pooled(out: Any) -> Shape:
    """Return the pooled values' shape where the operator returns their indices too."""
    pooled: Shape = out if isinstance(out, Shape) else out[0]
    return pooled


def _register_pooling(kind: str, dimensions: int) -> None:
    is_average = kind == "avg"

    def pool(x: Shape, kernel: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """One comparison or addition for each element of the window."""
        return pooling.pool(_take_pooled(out).numel, count_window(kernel, dimensions), is_average)

    def adaptive_pool(x: Shape, size: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """One comparison or addition for each element of each window."""
        return pooling.pool(count_covered(x, _take_pooled(out), dimensions), 1, is_average)

    name = f"{kind}_pool{dimensions}d"
    register_existing(pool, name)
    if not is_average:
        register_existing(pool, f"{name}_with_indices", f"quantized_{name}", f"mkldnn_{name}", f"fractional_{name}")
    register_existing(adaptive_pool, f"adaptive_{name}", f"_adaptive_{name}", f"mkldnn_adaptive_{name}")


for _dimensions in (1, 2, 3):
    _register_pooling("avg", _dimensions)
    _register_pooling("max", _dimensions)


@register_by_name("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    *, weight: Shape, indices: Shape, mode: int = 0, per_sample_weights: Shape | None = None, out: Any, **_: Any
) -> Cost:
    """Return the cost for each element of each row that is looked up; mode 2 is the maximum."""
    return pooling.embedding_bag(indices.numel * weight[-1], per_sample_weights is not None, maximum=mode == 2)
