"""Convolutions: plain, strided, dilated, grouped, transposed, and their gradients, are one primitive in JAX."""

from __future__ import annotations

from profilerkit.costs import convolution

from .registry import Cost, PrimitiveCall, Shape, register_op_cost


@register_op_cost("conv_general_dilated")
def conv_general_dilated(call: PrimitiveCall) -> Cost:
    """Each output element meets one filter; in a transposed convolution each input element does.

    A convolution of a dilated input is a transposed one. So is the gradient by the input of one with a stride of 1: its
    output is larger than its input by the padding, which is not counted as data there.
    """
    left, weight, out = call.inputs[0], call.inputs[1], call.outputs[0]
    spec = call.params["dimension_numbers"].rhs_spec
    filters, window = weight[spec[0]], Shape(weight[index] for index in spec[2:]).numel
    plain = (out.numel, weight.numel // max(filters, 1))
    turned = (left.numel, filters // call.params["feature_group_count"] * window)
    is_smaller = turned[0] * turned[1] < plain[0] * plain[1]
    is_transposed = any(step > 1 for step in call.params["lhs_dilation"]) or (call.is_backward and is_smaller)
    return convolution.convolution(*(turned if is_transposed else plain))
