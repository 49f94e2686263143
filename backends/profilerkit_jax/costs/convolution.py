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
    left, right, out = call.inputs[0], call.inputs[1], call.outputs[0]
    channels = out[numbers.out_spec[0]] * right[numbers.rhs_spec[0]] * right[numbers.rhs_spec[1]]
    at_left, at_right, at_out = (
        Shape(shape[index] for index in spec[2:]) for shape, spec in zip((left, right, out), numbers, strict=True)
    )
    if not call.is_backward:
        inputs, filters, outputs = at_left, at_right, at_out
        spreads = _has_gaps(params["lhs_dilation"])
        is_transposed = spreads or _is_full(call, filters, params["rhs_dilation"], params["window_strides"])
    elif not call.has_reversed:  # dilation and strides have changed places
        inputs, filters, outputs = at_left, at_out, at_right
        spreads = _has_gaps(params["lhs_dilation"])
        is_transposed = spreads or _is_full(call, filters, params["window_strides"], params["rhs_dilation"])
    else:  # a convolution that skips positions spreads them here; one that is padded in full is not padded here
        inputs, filters, outputs = at_out, at_right, at_left
        spreads = _has_gaps(params["window_strides"])
        is_padded = any(any(sides) for sides in params["padding"])
        is_transposed = spreads or not (is_padded or _has_gaps(params["lhs_dilation"]))
    return matmul.product(channels * filters.numel * (inputs if is_transposed else outputs).numel)


def _has_gaps(steps: Sequence[int]) -> bool:
    return any(step > 1 for step in steps)


def _is_full(call: PrimitiveCall, filters: Shape, dilation: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether it is padded so that at both ends one element of a filter is on the input: then it is transposed.

    JAX has no other sign of a transposed convolution with strides of one.
    """
    reaches = [step * (size - 1) for size, step in zip(filters, dilation, strict=True)]
    paddings = [(reach, reach) for reach in reaches]
    return [tuple(sides) for sides in call.params["padding"]] == paddings and not _has_gaps(strides)
