"""Matrix products, and a determinant: which operator goes to which formula."""

from __future__ import annotations

from profilerkit.backend_kit.operator_calls import read_equation
from profilerkit.costs import linear_algebra, matmul

from .activation import add_activation
from .registry import OPERATORS, Cost, NodeCall, Shape, register_op_cost


@OPERATORS.register_all("MatMul", "MatMulInteger", "QLinearMatMul")
def matrix_product(call: NodeCall) -> Cost:
    """Each output element sums over the last dimension of the first factor; quantized factors count as others do.

    The second input of ``QLinearMatMul`` is the scale of the first.
    """
    first = call.inputs[0]
    return matmul.product(call.outputs[0].numel * (first[-1] if first else 1))


@register_op_cost("com.microsoft::FusedMatMul")
def matmul_with_scale(call: NodeCall) -> Cost:
    """``alpha * a @ b``, either factor transposed; the scale is a product for each output element."""
    first, out = call.inputs[0], call.outputs[0]
    summed = turn(first, bool(call.attribute("transA", 0)), bool(call.attribute("transBatchA", 0)))[-1]
    return matmul.product(out.numel * summed).plus(
        matmul.scale_and_add(out.numel, 0, call.attribute("alpha", 1.0), beta=0)
    )


def turn(shape: Shape, is_transposed: bool, is_batch_turned: bool) -> Shape:
    """Return the shape of a factor of ``FusedMatMul`` in the product: ``(batch..., rows, columns)``.

    If the batch is turned, the factor is stored as ``(rows, batch..., columns)``.
    """
    if is_batch_turned:
        shape = Shape((*shape[1:-1], shape[0], shape[-1]))
    return Shape((*shape[:-2], shape[-1], shape[-2])) if is_transposed and len(shape) > 1 else shape


@register_op_cost("Gemm")
def gemm(call: NodeCall) -> Cost:
    """``alpha * a @ b + beta * c``; a scale other than 1 is a product for each element that it scales."""
    first, out = call.inputs[0], call.outputs[0]
    summed = first[0] if call.attribute("transA", 0) else first[1]
    added, beta = (call.inputs[2].numel, call.attribute("beta", 1.0)) if call.has_input(2) else (0, 0.0)
    sums = matmul.scale_and_add(out.numel, added, call.attribute("alpha", 1.0), beta)
    return matmul.product(out.numel * summed).plus(sums)


@register_op_cost("com.microsoft::FusedGemm")
def gemm_and_activation(call: NodeCall) -> Cost:
    """A ``Gemm``, and an activation of each output element."""
    return add_activation(gemm(call), call)


@register_op_cost("com.microsoft::QGemm")
def gemm_on_integers(call: NodeCall) -> Cost:
    """The products of integers count like products of floats; the bias is of integers, and costs nothing."""
    first = call.inputs[0]
    return matmul.product(call.outputs[0].numel * (first[0] if call.attribute("transA", 0) else first[1]))


@OPERATORS.register_all("com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4")
def matmul_of_packed_weights(call: NodeCall) -> Cost:
    """``a @ b.T + bias`` with weights of few bits, packed in blocks: the products of the matrix that they stand for."""
    out = call.outputs[0]
    return matmul.product(out.numel * call.attribute("K"), out.numel if call.has_input(5) else 0)


#: Products of integers that become floats, with the index of the input for the bias.
_BIASES = {"com.microsoft::DynamicQuantizeMatMul": 4, "com.microsoft::MatMulIntegerToFloat": 6}


@OPERATORS.register_all(*_BIASES)
def integers_to_floats(call: NodeCall) -> Cost:
    """The products, and an addition for each output element if there is a bias."""
    return matrix_product(call).plus(matmul.product(0, call.outputs[0].numel * call.has_input(_BIASES[call.type])))


@register_op_cost("Einsum")
def einsum(call: NodeCall) -> Cost:
    """By `profilerkit.costs.matmul.contraction`."""
    return matmul.contraction(*read_equation(call.attribute("equation"), call.inputs, call.outputs[0]))


@register_op_cost("Det")
def determinant(call: NodeCall) -> Cost:
    """The decomposition into triangles of each matrix of a batch."""
    x = call.inputs[0]
    return linear_algebra.lu(Shape(x[:-2]).numel, x[-2], x[-1])
