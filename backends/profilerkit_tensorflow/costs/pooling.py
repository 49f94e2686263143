"""Pooling and its gradients: the formulas of the operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profilerkit.costs import pooling

from .registry import Cost, OpCall, UnknownShapeError, register_op_cost, register_op_costs


def _count_window(sizes: Sequence[int] | None) -> int:
    """Return the elements of a window of these sizes."""
    if sizes is None:
        raise UnknownShapeError
    return math.prod(int(size) for size in sizes)


def _is_average(call: OpCall) -> bool:
    return "Avg" in call.type


@register_op_costs("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D", "MaxPoolWithArgmax")
def pool(call: OpCall) -> Cost:
    """One comparison or addition for each element of the window."""
    return pooling.pool(call.outputs[0].numel, _count_window(call.attribute("ksize")), _is_average(call))


@register_op_cost("MaxPoolV2")
def pool_by_value(call: OpCall) -> Cost:
    """One comparison for each element of the window, whose sizes are the second input."""
    return pooling.pool(call.outputs[0].numel, _count_window(call.value(1)), average=False)


@register_op_costs("FractionalAvgPool", "FractionalMaxPool")
def fractional_pool(call: OpCall) -> Cost:
    """One comparison or addition for each element of each window; without overlap the windows partition the input."""
    cover = call.inputs[0].numel
    if call.attribute("overlapping"):  # each window takes the next one's first row and column
        (_, height, width, _), (_, rows, columns, _) = call.inputs[0], call.outputs[0]
        cover = cover // (height * width) * (height + rows - 1) * (width + columns - 1)
    return pooling.pool(cover, 1, _is_average(call))


@register_op_costs("AvgPoolGrad", "AvgPool3DGrad")
def average_gradient(call: OpCall) -> Cost:
    """One addition for each element of the window of each gradient."""
    return pooling.pool_gradient(call.inputs[1].numel * _count_window(call.attribute("ksize")))


def _register_maximum_gradient(gradient: int, *names: str) -> None:
    """Register gradients of maxima; the gradient of the result is the input of that index."""

    @register_op_costs(*names)
    def maximum_gradient(call: OpCall) -> Cost:
        """One addition for each gradient, at the position of the maximum."""
        return pooling.pool_gradient(call.inputs[gradient].numel)


_register_maximum_gradient(2, "MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad", "FractionalMaxPoolGrad")
_register_maximum_gradient(1, "MaxPoolGradWithArgmax")
