"""Matrix products: the formulas of the primitives."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import elementwise, matmul

from .registry import OPERATORS, Cost, PrimitiveCall, Shape, UnknownCostError, register_op_cost


@register_op_cost("dot_general")
def dot_general(call: PrimitiveCall) -> Cost:
    """Each output element sums over the contracted dimensions; without any, it is one product.

    In a backward pass that is the gradient of ``W @ v`` with respect to ``W``, which has as many MACs as ``W @ v``.
    """
    (contracted, _), _ = call.params["dimension_numbers"]
    if call.is_backward and not contracted:
        return matmul.product(call.outputs[0].numel)
    return _products(call.outputs[0].numel, call.inputs[0], contracted)


def _products(outputs: int, left: Shape, contracted: Any) -> Cost:
    if not contracted:
        return elementwise.elementary("MULTIPLY")(outputs)
    return matmul.product(outputs * Shape(left[index] for index in contracted).numel)


@register_op_cost("ragged_dot_general")
def dot_of_ragged_rows(call: PrimitiveCall) -> Cost:
    """Each row meets only the matrix of its group, for any sizes of the groups; all rows belong to a group.

    If the rows are summed over, each of them goes to one group of the result.
    """
    numbers = call.params["ragged_dot_dimension_numbers"]
    (contracted, _), _ = numbers.dot_dimension_numbers
    left, out = call.inputs[0], call.outputs[0]
    if set(numbers.lhs_ragged_dimensions) & set(contracted):
        return _products(out.numel // out[0], left, contracted)
    return _products(out.numel, left, contracted)


@OPERATORS.register_all("scaled_matmul", "scaled_matmul_wrapper")
def matmul_with_scales(call: PrimitiveCall) -> Cost:
    """``(b, m, k) @ (b, n, k)`` of narrow floats with a scale for each block; the scales are left out."""
    left = call.inputs[0]
    return matmul.product(call.outputs[0].numel * left[-1])


@register_op_cost("scaled_dot")
def dot_with_scales(call: PrimitiveCall) -> Cost:
    """A product of narrow floats with a scale for each block; the scales are left out."""
    numbers = call.params.get("dimension_numbers")
    if numbers is None:
        raise UnknownCostError
    (contracted, _), _ = numbers
    return _products(call.outputs[0].numel, call.inputs[0], contracted)


@register_op_cost("symmetric_product")
def symmetric_product(call: PrimitiveCall) -> Cost:
    """``alpha * a @ a.T + beta * c``, as the whole product."""
    a, out = call.inputs[0], call.outputs[0]
    sums = matmul.scale_and_add(out.numel, out.numel, call.params["alpha"], call.params["beta"])
    return matmul.product(out.numel * a[-1]).plus(sums)
