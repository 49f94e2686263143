"""Convolutions: plain, strided, dilated, grouped, transposed, and their gradients, are one primitive in JAX."""

from __future__ import annotations

from profilerkit.costs import convolution

from .registry import Cost, PrimitiveCall, Shape, register_op_cost


@register_op_cost("conv_general_dilated")
def conv_general_dilated(call: PrimitiveCall) -> Cost:
    """Each output element meets one filter; in a transposed convolution each input element does.

    A convolution of a dilated input is a transposed one. So is the gradient by the input of a convolution with stride
    1: its output is larger than its input by the padding, which is not counted as data there. The gradient by the
    filters of a transposed convolution has a dilated input too, and filters larger than its output: each output element
    meets all channels and positions of the input.
    """
    left, weight, out = call.inputs[0], call.inputs[1], call.outputs[0]
    numbers, groups = call.params["dimension_numbers"], call.params["feature_group_count"]
    spec = numbers.rhs_spec
    filters, window = weight[spec[0]], Shape(weight[index] for index in spec[2:]).numel
    elements_of_filter = weight.numel // max(filters, 1)
    elements_of_turned_filter = filters // groups * window
    by_input, by_output = left.numel * elements_of_turned_filter, out.numel * elements_of_filter
    is_dilated = any(step > 1 for step in call.params["lhs_dilation"])
    if is_dilated and by_output < by_input:
        return convolution.convolution(out.numel, left.numel // max(left[numbers.lhs_spec[0]] * groups, 1))
    if is_dilated or (call.is_backward and by_input < by_output):
        return convolution.convolution(left.numel, elements_of_turned_filter)
    return convolution.convolution(out.numel, elements_of_filter)
