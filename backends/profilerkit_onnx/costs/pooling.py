"""Pooling: the largest element, the mean or the norm of each window."""

from __future__ import annotations

import math

from profilerkit.costs import pooling, reduction

from .registry import OPERATORS, Cost, NodeCall, register_op_cost

#: The domain of operators of ONNX Runtime on channels in blocks, which a CPU reads at once.
_BLOCKED = "com.microsoft.nchwc::"


@OPERATORS.register_all(
    "MaxPool", "AveragePool", _BLOCKED + "MaxPool", _BLOCKED + "AveragePool", "com.microsoft::NhwcMaxPool"
)
def pool(call: NodeCall) -> Cost:
    """One comparison or addition for each element of the window."""
    window = math.prod(call.attribute("kernel_shape"))
    return pooling.pool(call.outputs[0].numel, window, average=call.type.endswith("AveragePool"))


@OPERATORS.register_all(
    "GlobalAveragePool", "GlobalMaxPool", _BLOCKED + "GlobalAveragePool", _BLOCKED + "GlobalMaxPool"
)
def global_pool(call: NodeCall) -> Cost:
    """The window is the whole image."""
    return pooling.pool(call.inputs[0].numel, 1, average=call.type.endswith("GlobalAveragePool"))


@register_op_cost("LpPool")
def power_pool(call: NodeCall) -> Cost:
    """A power and an addition for each element of the window."""
    return reduction.norm(call.outputs[0].numel * math.prod(call.attribute("kernel_shape")))


@register_op_cost("GlobalLpPool")
def global_power_pool(call: NodeCall) -> Cost:
    """A power and an addition for each element."""
    return reduction.norm(call.inputs[0].numel)
