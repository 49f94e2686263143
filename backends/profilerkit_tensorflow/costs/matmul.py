"""Matrix products: the formulas of the operators."""

from __future__ import annotations

import numpy as np

from profilerkit.backend_kit.operator_calls import read_equation
from profilerkit.costs import matmul

from .registry import Cost, OpCall, Shape, register_op_cost, register_op_costs


@register_op_costs("MatMul", "SparseMatMul")
def matrix_product(call: OpCall) -> Cost:
    """``(m, k) @ (k, n)``: m * k * n."""
    a, b = call.inputs[0], call.inputs[1]
    return matmul.product(a.numel * b[0 if call.attribute("transpose_b") else 1])


@register_op_costs("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(call: OpCall) -> Cost:
    """``(..., m, k) @ (..., k, n)``, whose leading dimensions broadcast: batch * m * k * n."""
    a, b = call.inputs[0], call.inputs[1]
    rows, summed = (a[-1], a[-2]) if call.attribute("adj_x") else (a[-2], a[-1])
    columns = b[-2] if call.attribute("adj_y") else b[-1]
    batch = Shape(np.broadcast_shapes(a[:-2], b[:-2])).numel
    return matmul.matrix_product(rows, summed, columns, batch=batch)


@register_op_costs("Einsum", "XlaEinsum")
def einsum(call: OpCall) -> Cost:
    """By `profilerkit.costs.matmul.einsum`. An operand that is transposed, or whose diagonal is taken, costs nothing.

    Dimensions under an ellipsis are labels, and broadcast. A gradient is by `profilerkit.costs.matmul.einsum_gradient`.
    """
    formula = matmul.einsum_gradient if call.is_gradient_of_einsum else matmul.einsum
    return formula(*read_equation(call.attribute("equation"), call.inputs, call.outputs[0]))


@register_op_cost("SparseTensorDenseMatMul")
def sparse_dense_matmul(call: OpCall) -> Cost:
    """A multiply-accumulate for each value that the sparse matrix holds and each column of the dense one."""
    values, dense = call.inputs[1], call.inputs[3]
    return matmul.product(values.numel * dense[0 if call.attribute("adjoint_b") else 1])
