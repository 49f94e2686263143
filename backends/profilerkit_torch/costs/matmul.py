"""Matrix products and their gradients: which operator goes to which formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.costs import activation, matmul

from .registry import Cost, Shape, register_op_cost, register_op_costs
from .shapes import SparseShape
from .sparse import count_stored, multiply_stored


@register_op_costs("aten::mm", "aten::bmm")
def mm(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``(m, k) @ (k, n)``: m * k * n, for each of a batch."""
    return multiply_stored(a, b)


@register_op_cost("aten::_foreach_mm")
def foreach_mm(firsts: tuple[Shape, ...], seconds: tuple[Shape, ...], *, out: Any) -> Cost:
    """One product for each pair of matrices."""
    costs = [multiply_stored(a, b) for a, b in zip(firsts, seconds, strict=True)]
    return Cost(sum(cost.macs for cost in costs), sum(cost.flops for cost in costs))


@register_op_costs("aten::linear", "aten::mkldnn_linear", "onednn::linear_dynamic_fp16")
def linear(x: Shape, weight: Shape, bias: Shape | None = None, *, out: Shape) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element where there is a bias."""
    columns = weight[0] if len(weight) == 2 else 1
    macs = Shape(x[:-1]).numel * weight.stored if isinstance(weight, SparseShape) else count_stored(x) * columns
    return matmul.product(macs, out.numel if bias is not None else 0)


@register_op_cost("aten::mv")
def mv(a: Shape, x: Shape, *, out: Shape) -> Cost:
    """``(m, k) @ (k,)``: m * k."""
    return multiply_stored(a, Shape((*x, 1)))


@register_op_costs("aten::dot", "aten::vdot")
def dot(x: Shape, y: Shape, *, out: Shape) -> Cost:
    """``(k,) . (k,)``: k."""
    return matmul.product(x.numel)


# Sums with a product, each with a factor ------------------------------------------------------------------------------


@register_op_costs("aten::addmm aten::baddbmm aten::addbmm aten::_sparse_addmm aten::sspaddmm")
def addmm(added: Shape, a: Shape, b: Shape, *_: Any, beta: float = 1, alpha: float = 1, out: Shape, **__: Any) -> Cost:
    """``beta * added + alpha * (a @ b)``; in ``baddbmm`` for each of a batch, in ``addbmm`` summed over it.

    ``torch.sparse.mm`` has a beta of 0.
    """
    return multiply_stored(a, b).plus(matmul.scale_and_add(out.numel, count_stored(added), alpha, beta))


@register_op_cost("aten::addmv")
def addmv(added: Shape, a: Shape, x: Shape, *, out: Shape, **factors: Any) -> Cost:
    """``beta * added + alpha * (a @ x)``: m * k, and what `addmm` has beside its product."""
    return addmm(added, a, Shape((*x, 1)), out=out, **factors)


@register_op_cost("aten::_addmm_activation")
def addmm_activation(added: Shape, a: Shape, b: Shape, *, use_gelu: bool = False, out: Shape, **factors: Any) -> Cost:
    """``activation(beta * added + alpha * (a @ b))``: a GELU by tanh or a ReLU for each output element."""
    after = activation.gelu(out.numel, approximate=True) if use_gelu else activation.relu(out.numel)
    return addmm(added, a, b, out=out, **factors).plus(after)


@register_op_cost("aten::addr")
def addr(added: Shape, x: Shape, y: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``added + outer(x, y)``: one multiply-accumulate for each output element."""
    return matmul.product(out.numel)


# Other products -------------------------------------------------------------------------------------------------------


@register_op_costs("aten::_cdist_forward", "aten::_euclidean_dist", "aten::_pdist_forward")
def cdist(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Return the cost for each pair of points and each of their coordinates."""
    return matmul.distances(out.numel, x[-1])


@register_op_cost("aten::_trilinear")
def trilinear(a: Shape, b: Shape, c: Shape, ea: Any, eb: Any, ec: Any, sumdim: Any, *_: Any, out: Shape) -> Cost:
    """The bilinear layer's product of three: each of the ``a * b`` products, of all elements they range over, with c.

    For ``x1 (n, i)``, ``weight (o, i, j)`` and ``x2 (n, j)`` that is n * o * i * j multiply-accumulates, and as many
    multiplications again for the second factor.
    """
    ranged = _with_ones(a, ea), _with_ones(b, eb), _with_ones(c, ec)
    macs = Shape(0 if 0 in sizes else max(sizes) for sizes in zip(*ranged, strict=True)).numel
    return matmul.trilinear(macs)


def _with_ones(shape: Shape, expanded: Any) -> list[int]:
    sizes = list(shape)
    for position in sorted(expanded):
        sizes.insert(position, 1)
    return sizes


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


@register_op_cost("aten::_sparse_mm_reduce_impl_backward")
def sparse_mm_gradient(
    a: Shape, dy: Shape, b: Shape, reduce: Any, indices: Any, output_mask: Sequence[bool], *, out: Any
) -> Cost:
    """As many as the product for each factor: the stored elements of the sparse one, times the columns of the other."""
    return matmul.product_gradient(count_stored(a) * b[-1], sum(output_mask))


@register_op_cost("aten::_cdist_backward")
def cdist_gradient(dy: Shape, a: Shape, b: Shape, p: Any, distances: Shape, *, out: Shape) -> Cost:
    """Return the cost for each pair of points and each of their coordinates."""
    return matmul.distances_gradient(distances.numel, a[-1])


@register_op_cost("aten::_pdist_backward")
def pdist_gradient(dy: Shape, x: Shape, p: Any, distances: Shape, *, out: Shape) -> Cost:
    """Return the cost for each pair of points among themselves and each of their coordinates."""
    return matmul.distances_gradient(distances.numel, x[-1], among_themselves=True)
