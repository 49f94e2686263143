"""Convolutions: plain, strided, dilated, grouped, transposed, and their gradients, are one primitive in JAX."""

from __future__ import annotations

from collections.abc import Sequence

from profilerkit.costs import matmul

from .registry import Cost, PrimitiveCall, Shape, UnknownCostError, register_op_cost


@register_op_cost("conv_general_dilated")
def conv_general_dilated(call: PrimitiveCall) -> Cost:
    """Each position of the filters meets each position of the output; of the input if it is transposed.

    A gradient costs as much as its convolution, whose three arrays it has in other places:

    | equation                | left   | right            | out     |
    |-------------------------|--------|------------------|---------|
    | convolution             | input  | filters          | output  |
    | gradient by the filters | input  | output           | filters |
    | gradient by the input   | output | filters reversed | input   |

    The gradients of gradients have them in places that nothing tells: they are not counted.
    """
    if call.is_second_gradient:
        raise UnknownCostError
    params, numbers = call.params, call.params["dimension_numbers"]
    shapes = call.inputs[0], call.inputs[1], call.outputs[0]
    channels = shapes[2][numbers.out_spec[0]] * shapes[1][numbers.rhs_spec[0]] * shapes[1][numbers.rhs_spec[1]]
    left, right, out = (Shape(shape[index] for index in spec[2:]) for shape, spec in zip(shapes, numbers, strict=True))
    inputs, filters, outputs = left, right, out
    spread, strides, dilation = params["lhs_dilation"], params["window_strides"], params["rhs_dilation"]
    is_by_input = call.is_backward and call.has_reversed
    if is_by_input:  # a convolution that skips positions spreads them here
        inputs, outputs, spread, strides = out, left, strides, spread
    elif call.is_backward:  # by the filters: dilation and strides have changed places
        filters, outputs, strides, dilation = out, right, dilation, strides
    # Padded in full, one element of a filter is on the input at both ends; its gradient by the input has no padding.
    reaches = [0 if is_by_input else step * (size - 1) for size, step in zip(filters, dilation, strict=True)]
    is_full = [tuple(sides) for sides in params["padding"]] == [(reach, reach) for reach in reaches]
    # JAX has no other sign of a transposed convolution with strides of one.
    is_transposed = _has_gaps(spread) or (is_full and not _has_gaps(strides))
    return matmul.product(channels * filters.numel * (inputs if is_transposed else outputs).numel)


def _has_gaps(steps: Sequence[int]) -> bool:
    return any(step > 1 for step in steps)
