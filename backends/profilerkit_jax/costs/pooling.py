"""Windows that are reduced: which primitive goes to which formula."""

from __future__ import annotations

import math

from profilerkit.costs import pooling

from .registry import OPERATORS, Cost, PrimitiveCall, register_op_cost, register_uncounted

register_uncounted("its functions are the caller's own", "select_and_scatter")


@OPERATORS.register_all("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def reduce_window(call: PrimitiveCall) -> Cost:
    """One addition or comparison for each element of the window."""
    window = math.prod(call.params["window_dimensions"])
    return pooling.pool(call.outputs[0].numel, window, average=call.type.endswith("sum"))


@register_op_cost("select_and_scatter_add")
def gradient_of_maximum(call: PrimitiveCall) -> Cost:
    """The gradient of a maximum: an addition for each element that is brought back to where it came from."""
    return pooling.pool_gradient(call.inputs[0].numel)


@register_op_cost("select_and_gather_add")
def tangent_of_maximum(call: PrimitiveCall) -> Cost:
    """One comparison for each element of the window; the tangent of the greatest is moved."""
    return pooling.pool(call.outputs[0].numel, math.prod(call.params["window_dimensions"]), average=False)
