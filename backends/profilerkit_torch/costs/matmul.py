"""Matrix products and their gradients, also of low precision: which operator goes to which formula.

Products with scales beside the matrices count as products of the scaled matrices. Applying the scales belongs to the
storage of the numbers and is not counted. Two floats of 4 bits share an element of a tensor; formulas get the shape of
the matrix of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from profilerkit.costs import Cost, apply_formula, constants, matmul
from profilerkit.costs import activation as activation_costs

from ..compat.operators import find_operator
from .families import register_by_name, register_op_costs, register_per_element
from .registry import Shape, register_op_cost
from .shapes import SparseShape, count_stored_elements, find_numbers
from .sparse import count_stored, multiply_stored

__all__ = ["is_gradient_product", "price_gradient_product"]


@register_op_costs("aten::mm", "aten::bmm")
def mm(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``(m, k) @ (k, n)``: m * k * n, for each of a batch."""
    return multiply_stored(a, b)


@register_op_cost("aten::_foreach_mm")
def foreach_mm(firsts: tuple[Shape, ...], seconds: tuple[Shape, ...], *, out: Any) -> Cost:
    """One product for each pair of matrices."""
    costs = [multiply_stored(a, b) for a, b in zip(firsts, seconds, strict=True)]
    return Cost(sum(cost.macs for cost in costs), sum(cost.flops for cost in costs))


@register_op_costs("aten::linear", "aten::mkldnn_linear")
def linear(x: Shape, weight: Shape, bias: Shape | None = None, *, out: Shape) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element if there is a bias."""
    columns = weight[0] if len(weight) == 2 else 1
    macs = Shape(x[:-1]).numel * weight.stored if isinstance(weight, SparseShape) else count_stored(x) * columns
    return matmul.product(macs, out.numel if bias is not None else 0)


@register_op_cost("aten::mv")
def mv(a: Shape, x: Shape, *, out: Shape) -> Cost:
    """``(m, k) @ (k,)``: m * k."""
    return multiply_stored(a, Shape((*x, 1)))


# ``(k,) . (k,)``: k.
register_per_element({"dot vdot": matmul.product})


# Sums with a product, each with a factor ------------------------------------------------------------------------------


@register_op_costs("aten::addmm aten::baddbmm aten::addbmm aten::_sparse_addmm aten::sspaddmm")
def addmm(added: Shape, a: Shape, b: Shape, *_: Any, beta: float = 1, alpha: float = 1, out: Shape, **__: Any) -> Cost:
    """``beta * added + alpha * (a @ b)``; in ``baddbmm`` for each of a batch, in ``addbmm`` summed over it.

    ``torch.sparse.mm`` has a beta of 0.
    """
    return multiply_stored(a, b).plus(matmul.scale_and_add(out.numel, count_stored(added), alpha, beta))


@register_op_cost("aten::addmv")
def addmv(added: Shape, a: Shape, x: Shape, *, out: Shape, **factors: Any) -> Cost:
    """``beta * added + alpha * (a @ x)``: m * k, and the further operations of `addmm`."""
    return addmm(added, a, Shape((*x, 1)), out=out, **factors)


@register_op_cost("aten::_addmm_activation")
def addmm_activation(added: Shape, a: Shape, b: Shape, *, use_gelu: bool = False, out: Shape, **factors: Any) -> Cost:
    """``activation(beta * added + alpha * (a @ b))``: a GELU by tanh or a ReLU for each output element."""
    after = activation_costs.gelu(out.numel, approximate=True) if use_gelu else activation_costs.relu(out.numel)
    return addmm(added, a, b, out=out, **factors).plus(after)


@register_op_cost("aten::addr")
def addr(added: Shape, x: Shape, y: Shape, *, beta: float = 1, alpha: float = 1, out: Shape) -> Cost:
    """``beta * added + alpha * outer(x, y)``: one multiply-accumulate for each output element, and the factors.

    With a beta of 0 nothing is added: there is a multiplication in its place.
    """
    outer = matmul.product(out.numel) if beta else Cost(0, out.numel * constants.MULTIPLY)
    factors = (alpha != 1) * out.numel + (beta not in (0, 1)) * added.numel
    return outer.plus(Cost(0, factors * constants.MULTIPLY))


# Other products -------------------------------------------------------------------------------------------------------


@register_op_costs("aten::_cdist_forward", "aten::_euclidean_dist", "aten::_pdist_forward")
def cdist(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Return the cost for each pair of points and each of their coordinates."""
    return matmul.distances(out.numel, x[-1])


@register_op_cost("aten::_trilinear")
def trilinear(a: Shape, b: Shape, c: Shape, *expanded: Any, out: Shape) -> Cost:
    """The bilinear layer's product of three: each of the ``a * b`` products, of all elements they range over, with c.

    For ``x1 (n, i)``, ``weight (o, i, j)`` and ``x2 (n, j)`` it is n * o * i * j multiply-accumulates, and as many
    multiplications again for the second factor. The first three of ``expanded`` are the dimensions added to each.
    """
    ranged = [list(a), list(b), list(c)]
    for sizes, positions in zip(ranged, expanded, strict=False):
        for position in sorted(positions):
            sizes.insert(position, 1)
    return matmul.trilinear(Shape(0 if 0 in sizes else max(sizes) for sizes in zip(*ranged, strict=True)).numel)


@register_op_cost("aten::_compute_linear_combination")
def linear_combination(x: Shape, coefficients: Shape, *, out: Shape) -> Cost:
    """``coefficients @ x``, over all else that x has: one multiply-accumulate for each coefficient and element."""
    return matmul.product(coefficients[0] * x.numel)


# Gradients ------------------------------------------------------------------------------------------------------------


@register_op_costs("aten::linear_backward", "aten::mkldnn_linear_backward")
def linear_gradient(x: Shape, dy: Shape, weight: Shape, output_mask: Sequence[bool], *, out: Any) -> Cost:
    """``dy @ weight`` and ``dy.T @ x``: dy * in_features each; the bias takes the sum of dy."""
    return matmul.product_gradient(dy.numel * weight[-1], sum(output_mask[:2]), dy.numel * output_mask[2])


@register_op_cost("aten::mkldnn_linear_backward_input")
def linear_gradient_by_input(size: Any, dy: Shape, weight: Shape, *, out: Shape) -> Cost:
    """``dy @ weight``: dy * in_features."""
    return matmul.product(dy.numel * weight[-1])


@register_op_cost("aten::mkldnn_linear_backward_weights")
def linear_gradient_by_weight(dy: Shape, x: Shape, weight: Shape, bias: bool, *, out: Any) -> Cost:
    """``dy.T @ x``: dy * in_features; the bias takes the sum of dy."""
    return matmul.product(dy.numel * weight[-1], dy.numel * bias)


@register_op_cost("aten::matmul_backward")
def matmul_gradient(dy: Shape, a: Shape, b: Shape, output_mask: Sequence[bool], *, out: Any) -> Cost:
    """``dy @ b.T`` and ``a.T @ dy``: as many as the product, dy * (the elements summed over), each."""
    return matmul.product_gradient(dy.numel * a[-1], sum(output_mask))


@register_by_name("aten::_sparse_mm_reduce_impl_backward")
def sparse_mm_gradient(*, x: Shape, weight: Shape, output_mask: Sequence[bool], out: Any, **_: Any) -> Cost:
    """As much as the product for each factor: the stored elements of the sparse one, times the columns of the other."""
    return matmul.product_gradient(count_stored(x) * weight[-1], sum(output_mask))


@register_op_cost("aten::_cdist_backward")
def cdist_gradient(dy: Shape, a: Shape, b: Shape, p: Any, distances: Shape, *, out: Shape) -> Cost:
    """Return the cost for each pair of points and each of their coordinates."""
    return matmul.distances_gradient(distances.numel, a[-1])


@register_op_cost("aten::_pdist_backward")
def pdist_gradient(dy: Shape, x: Shape, p: Any, distances: Shape, *, out: Shape) -> Cost:
    """Return the cost for each pair of points among themselves and each of their coordinates."""
    return matmul.distances_gradient(distances.numel, x[-1], among_themselves=True)


# Gradients of products with vectors, which torch computes by a multiplication -----------------------------------------


#: Nodes of the autograd graph whose gradients are products of a vector with a vector, or with a number.
_NODES_OF_VECTORS = {"AddmvBackward0", "DotBackward0", "MvBackward0", "VdotBackward0"}
_MULTIPLY = find_operator("aten.mul.Tensor")


def is_gradient_product(func: Any, args: Any, node: Any) -> bool:
    """Return whether an operator of an autograd node is a product in the gradient of a product.

    They are products of matrices with one element to sum over: ``outer(dy, x)`` for ``a @ x``. Counted like products,
    the gradient by each factor of a product takes as many multiply-accumulates as the product.
    """
    return func is _MULTIPLY and all(map(torch.is_tensor, args)) and node.name() in _NODES_OF_VECTORS


def price_gradient_product(args: Any, result: Any) -> Cost:
    """Return the cost of a product in a gradient: a multiply-accumulate for each element of its result."""
    return apply_formula(matmul.product, find_numbers(args, {}, result), count_stored_elements(result))


# Of low precision -----------------------------------------------------------------------------------------------------


@register_op_cost("aten::_int_mm")
def int_mm(a: Shape, b: Shape, *, out: Shape) -> Cost:
    """``(m, k) @ (k, n)``: m * k * n."""
    return matmul.product(a.numel * b[-1])


# With scales beside both matrices: ``(m, k) @ (k, n) + bias`` ---------------------------------------------------------


def _multiply_and_add(a: Shape, b: Shape, bias: Shape | None) -> Cost:
    """Return m * k * n, and an addition for each output element if there is a bias."""
    return matmul.product(a.numel * b[-1], a[0] * b[-1] if bias is not None else 0)


@register_by_name("aten::_scaled_mm", "aten::_scaled_mm_v2")
def mm_with_scales(*, x: Shape, mat2: Shape, bias: Shape | None = None, out: Shape, **_: Any) -> Cost:
    """Return the cost; the bias follows the scales."""
    return _multiply_and_add(x, mat2, bias)


@register_op_cost("aten::_scaled_addmm")
def addmm_with_scales(bias: Shape, a: Shape, b: Shape, *_: Any, **__: Any) -> Cost:
    """Return the cost; the bias comes first."""
    return _multiply_and_add(a, b, bias)


@register_op_costs(
    "aten::_grouped_mm aten::_scaled_grouped_mm aten::_scaled_grouped_mm_v2",
    "transformers::grouped_mm_fallback",  # where torch has none
)
def mm_by_group(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """A product for each of g groups; a dimension that the shapes do not have g times is divided among the groups.

    - The rows, ``(m, k) @ (g, k, n)``, the columns, ``(g, m, k) @ (k, n)``, or the dimension to sum over,
      ``(m, k) @ (k, n)``: m * k * n in all.
    - No dimension, ``(g, m, k) @ (g, k, n)``: g * m * k * n.
    """
    if len(a) == 3 and len(b) == 2:
        return matmul.product(b.numel * a[-2])
    return matmul.product(a.numel * b[-1])


@register_op_cost("transformers::grouped_mm_fallback_backward")
def gradients_of_mm_by_group(a: Shape, b: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """As much as ``mm_by_group`` for the gradient of the rows, and again for the gradient of the weights."""
    return mm_by_group(a, b, out=out).times(2)


# With a packed weight -------------------------------------------------------------------------------------------------


@register_op_costs("aten::_weight_int8pack_mm quanto::qbytes_mm")
def weight_int8pack_mm(x: Shape, weight: Shape, *_: Any, out: Shape) -> Cost:
    """``(m, k) @ (n, k).T``: m * k * n."""
    return matmul.product(x.numel * weight[0])


@register_op_costs(
    "aten::_weight_int4pack_mm aten::_weight_int4pack_mm_for_cpu aten::_weight_int4pack_mm_with_scales_and_zeros",
    "aten::_dyn_quant_matmul_4bit quantized::int4mm_packed_weight_cpu",
)
def weight_int4pack_mm(x: Shape, packed: Any, *_: Any, out: Shape) -> Cost:
    """``(m, k) @ (n, k).T``: m * k * n; n is read from the output, because the packed weight has another shape."""
    return matmul.product(x.numel * out[-1])


@register_op_costs("bitsandbytes::gemv_4bit bitsandbytes::gemm_4bit")
def mm_4bit(x: Shape, packed: Any, shape: Sequence[int], *rest: Any, out: Any) -> Cost:
    """``(m, k) @ (n, k).T + bias``: m * k * n; the weight has its shape beside it.

    The rest are its scales, the code of its numbers, the size of its blocks, and the bias if there is one.
    """
    outputs = x.numel // max(1, shape[1]) * shape[0]
    return matmul.product(x.numel * shape[0], outputs if isinstance(rest[3:] and rest[3], Shape) else 0)


@register_op_costs("bitsandbytes::int8_linear_matmul bitsandbytes::int8_scaled_mm")
def mm_8bit(a: Shape, b: Shape, row_scales: Any = None, column_scales: Any = None, *rest: Any, out: Any) -> Cost:
    """``(m, k) @ (n, k).T + bias``: m * k * n."""
    bias = rest[0] if rest else None
    return matmul.product(a.numel * b[0], out.numel if isinstance(bias, Shape) else 0)


@register_op_cost("aten::_mixed_dtypes_linear")
def linear_of_mixed_dtypes(
    x: Shape,
    weight: Any,
    scale: Any,
    *,
    bias: Shape | None = None,
    activation: str | None = None,
    out: Shape,
) -> Cost:
    """``activation(x @ weight + bias)``: out * in_features, and an addition for each output if there is a bias."""
    cost = matmul.product(x.numel * out[-1], out.numel if bias is not None else 0)
    return activation_costs.add_activation(cost, out.numel, None if activation == "none" else activation)
