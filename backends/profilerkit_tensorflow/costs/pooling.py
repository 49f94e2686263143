"""Pooling: one operation for each element of each window; its gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .registry import Cost, OpCall, UnknownShapeError, register_op_cost


def _window(call: OpCall, sizes_input: int | None = None) -> int:
    sizes: Sequence[int] | None = call.attribute("ksize")
    if sizes is None and sizes_input is not None:
        sizes = call.value(sizes_input)
    if sizes is None:
        raise UnknownShapeError
    return math.prod(int(size) for size in sizes)


@register_op_cost("AvgPool")
@register_op_cost("AvgPool3D")
@register_op_cost("MaxPool")
@register_op_cost("MaxPool3D")
@register_op_cost("MaxPoolWithArgmax")
@register_op_cost("_MklNativeAvgPool")
@register_op_cost("_MklNativeAvgPool3D")
@register_op_cost("_MklNativeMaxPool")
@register_op_cost("_MklNativeMaxPool3D")
def pool(call: OpCall) -> Cost:
    """One comparison or addition for each element of the window, the average's division included."""
    return Cost(0, call.outputs[0].numel * _window(call))


@register_op_cost("MaxPoolV2")
def pool_by_value(call: OpCall) -> Cost:
    """One comparison for each element of the window, whose sizes are the second input."""
    return Cost(0, call.outputs[0].numel * _window(call, 1))


@register_op_cost("FractionalAvgPool")
@register_op_cost("FractionalMaxPool")
def fractional_pool(call: OpCall) -> Cost:
    """One comparison or addition for each element of each window; without overlap they share the input out."""
    cover = call.inputs[0].numel
    if call.attribute("overlapping"):  # each window takes the next one's first row and column
        (_, height, width, _), (_, rows, columns, _) = call.inputs[0], call.outputs[0]
        cover = cover // (height * width) * (height + rows - 1) * (width + columns - 1)
    return Cost(0, cover)


@register_op_cost("AvgPoolGrad")
@register_op_cost("AvgPool3DGrad")
@register_op_cost("_MklNativeAvgPoolGrad")
@register_op_cost("_MklNativeAvgPool3DGrad")
def average_gradient(call: OpCall) -> Cost:
    """One addition for each element of the window of each gradient."""
    return Cost(0, call.inputs[1].numel * _window(call))


def _register_maximum_gradient(name: str, gradient: int) -> None:
    @register_op_cost(name)
    def maximum_gradient(call: OpCall) -> Cost:
        """One addition for each gradient, where the maximum was."""
        return Cost(0, call.inputs[gradient].numel)


for _name in ("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad", "_MklNativeMaxPoolGrad", "_MklNativeMaxPool3DGrad"):
    _register_maximum_gradient(_name, 2)
_register_maximum_gradient("MaxPoolGradWithArgmax", 1)
_register_maximum_gradient("FractionalMaxPoolGrad", 2)
