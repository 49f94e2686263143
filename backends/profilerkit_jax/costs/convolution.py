"""Convolutions: plain, strided, dilated, grouped, transposed, and their gradients, are one primitive in JAX."""

from __future__ import annotations

from collections.abc import Sequence

from profilerkit.costs import matmul

from .registry import Cost, PrimitiveCall, Shape, register_op_cost


@register_op_cost("conv_general_dilated")
def conv_general_dilated(call: PrimitiveCall) -> Cost:
    """Each element of the filters meets each sample at each position of the output; of the input if it is transposed.

    A gradient costs as much as its convolution. The gradient by the filters has the filters as its output, and reads
    the gradient of the output in the place of filters. The gradient by the input reads the reversed filters.
    """
    numbers, params, left, right, out = call.params["dimension_numbers"], call.params, *call.inputs, call.outputs[0]
    at_input, at_right, at_output = (
        Shape(shape[index] for index in spec[2:]) for shape, spec in zip((left, right, out), numbers, strict=True)
    )
    is_transposed = _has_gaps(params["lhs_dilation"])
    if call.is_backward and not call.reversals:
        is_transposed = is_transposed or _is_full(call, at_output, params["window_strides"], params["rhs_dilation"])
        return matmul.product(out.numel * right[numbers.rhs_spec[1]] * (at_input if is_transposed else at_right).numel)
    if call.reversals % 2:  # the positions of the output are those of the left input
        is_full = not any(any(sides) for sides in params["padding"])
        is_transposed = is_transposed or not (is_full or _has_gaps(params["window_strides"]))
    else:
        is_transposed = is_transposed or _is_full(call, at_right, params["rhs_dilation"], params["window_strides"])
    return matmul.product(right.numel * out[numbers.out_spec[0]] * (at_input if is_transposed else at_output).numel)


def _has_gaps(steps: Sequence[int]) -> bool:
    return any(step > 1 for step in steps)


def _is_full(call: PrimitiveCall, window: Sequence[int], dilation: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether it is padded so that at both ends one element of a filter is on the input: then it is transposed.

    JAX has no other sign of a transposed convolution with strides of one.
    """
    reaches = [step * (size - 1) for size, step in zip(window, dilation, strict=True)]
    paddings = [(reach, reach) for reach in reaches]
    return [tuple(sides) for sides in call.params["padding"]] == paddings and not _has_gaps(strides)
