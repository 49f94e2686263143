"""Windows that are reduced: the formulas of the primitives."""

from __future__ import annotations

import math

from profilerkit.costs import pooling

from .registry import OPERATORS, Cost, PrimitiveCall, register_op_cost, register_uncounted

register_uncounted("its functions are the caller's own", "select_and_scatter")


def _count_window(call: PrimitiveCall) -> int:
    return math.prod(call.params["window_dimensions"])


@register_op_cost("reduce_window_sum")
def total(call: PrimitiveCall) -> Cost:
    """One addition for each element of each window; in a gradient, for each element of the window of each gradient.

    JAX writes that gradient as a sum over windows too, of gradients with zeros around and between them. Zeros are not
    counted.
    """
    if call.is_backward and call.unpadded:
        return pooling.pool_gradient(call.unpadded * _count_window(call))
    return pooling.pool(call.outputs[0].numel, _count_window(call), average=True)


@OPERATORS.register_all("reduce_window_max", "reduce_window_min", "select_and_gather_add")
def extreme(call: PrimitiveCall) -> Cost:
    """One comparison for each element of each window; the tangent of the greatest (the last primitive) is moved."""
    return pooling.pool(call.outputs[0].numel, _count_window(call), average=False)


@register_op_cost("select_and_scatter_add")
def gradient_of_maximum(call: PrimitiveCall) -> Cost:
    """The gradient of a maximum: an addition for each element, at the position of the maximum."""
    return pooling.pool_gradient(call.inputs[0].numel)
