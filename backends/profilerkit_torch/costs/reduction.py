"""Reductions that take more than one operation for each input element, or that torch does not tag as such."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from profilerkit.costs import constants, reduction

from .families import register_op_costs, register_per_element
from .registry import UNCOUNTED, Cost, Shape, register_op_cost

#: The formula for each element of the input, by operator; an in-place variant has the same.
_BY_INPUT: dict[str, Callable[[int], Cost]] = {
    "var std var_mean std_mean prims::var": reduction.variance,
    "linalg_vector_norm norm native_norm linalg__powsum": reduction.norm,
    "logsumexp logcumsumexp _logcumsumexp": reduction.log_sum_exp,
    "cumsum segment_reduce": reduction.total,
    "col2im": reduction.total,  # overlapping patches are added up
    "cummax cummin _cummax_helper _cummin_helper": reduction.extreme,
    "aminmax _aminmax": partial(reduction.extreme, ends=2),
    "cumprod": reduction.multiply,
    "dist": reduction.distance,
    "allclose": reduction.all_close,
}


register_per_element(_BY_INPUT)


@register_op_cost("aten::trace")
def trace(x: Shape, *, out: Shape) -> Cost:
    """One addition for each element of the diagonal."""
    return reduction.total(min(x))


@register_op_costs("aten::scatter_add", "aten::scatter_reduce", "aten::scatter.reduce", "aten::scatter.value_reduce")
def scatter(x: Shape, dim: int, index: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition, product or comparison for each index: further elements of a larger source are not used."""
    return reduction.scatter(index.numel)


@register_op_costs("aten::index_add", "aten::index_reduce")
def accumulation(x: Shape, dim: int, index: Any, source: Shape, *_: Any, alpha: float = 1, out: Any, **__: Any) -> Cost:
    """One addition (or comparison) for each element of the source, and a product with its factor."""
    scaled = 0 if alpha == 1 else source.numel
    return reduction.scatter(source.numel).plus(Cost(0, scaled * constants.MULTIPLY))


@register_op_costs("aten::index_put", "aten::put", "aten::_unsafe_index_put", "aten::_index_put_impl")
def index_put(x: Shape, indices: Any, values: Shape, accumulate: bool = False, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each value if they accumulate, else nothing."""
    return reduction.scatter(values.numel, bool(accumulate))


@register_op_cost("aten::bincount")
def bincount(x: Shape, weights: Shape | None = None, *_: Any, out: Any) -> Cost:
    """One addition for each weight; without them it counts in integers."""
    return reduction.scatter(0 if weights is None else weights.numel)


@register_op_cost("aten::histogram")
def histogram(x: Shape, *_: Any, weight: Shape | None = None, density: bool = False, out: Any, **__: Any) -> Cost:
    """One addition for each weight, like ``bincount``; the divisions of a density are not known."""
    return UNCOUNTED if density else reduction.scatter(0 if weight is None else weight.numel)


# One operation for each element that was reduced: a division, comparison or product.
register_per_element({"_segment_reduce_backward": reduction.scatter}, argument=2)
