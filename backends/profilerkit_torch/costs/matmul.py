"""Matrix products: one multiply-accumulate for each output element and each element summed over."""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost, register_op_costs
from .shapes import SparseShape
from .sparse import stored_product


@register_op_cost("aten::mm")
def mm(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``(m, k) @ (k, n)``: m * k * n."""
    return stored_product(a, b)


@register_op_cost("aten::bmm")
def bmm(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``(b, m, k) @ (b, k, n)``: b * m * k * n."""
    return stored_product(a, b)


@register_op_cost("aten::addmm")
def addmm(bias: Shape, a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + a @ b``: m * k * n, and an addition for each output element."""
    return Cost.of_macs(stored_product(a, b).macs, out.numel)


@register_op_cost("aten::baddbmm")
def baddbmm(bias: Shape, a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + a @ b`` in batches: b * m * k * n, and an addition for each output element."""
    return Cost.of_macs(a.numel * b[-1], out.numel)


@register_op_cost("aten::addbmm")
def addbmm(bias: Shape, a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + sum of a @ b over the batch``: b * m * k * n, and an addition for each output element."""
    return Cost.of_macs(a.numel * b[-1], out.numel)


@register_op_cost("aten::_foreach_mm")
def foreach_mm(firsts: tuple[Shape, ...], seconds: tuple[Shape, ...], *, out: Any) -> Cost:
    """One product for each pair of matrices."""
    return Cost.of_macs(sum(stored_product(a, b).macs for a, b in zip(firsts, seconds, strict=True)))


@register_op_cost("aten::_addmm_activation")
def addmm_activation(bias: Shape, a: Shape, b: Shape, *_: Any, use_gelu: bool = False, out: Shape, **__: Any) -> Cost:
    """``activation(bias + a @ b)``: m * k * n, and for each output an addition and a GELU by tanh (8) or a ReLU (1)."""
    return Cost.of_macs(a.numel * b[-1], out.numel * (1 + (8 if use_gelu else 1)))


@register_op_costs("aten::linear", "aten::mkldnn_linear", "onednn::linear_dynamic_fp16")
def linear(x: Shape, weight: Shape, bias: Shape | None = None, *, out: Shape) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element where there is a bias."""
    rows = weight[0] if len(weight) == 2 else 1
    macs = Shape(x[:-1]).numel * weight.stored if isinstance(weight, SparseShape) else x.numel * rows
    return Cost.of_macs(macs, out.numel if bias is not None else 0)


@register_op_cost("aten::mv")
def mv(a: Shape, x: Shape, *, out: Shape) -> Cost:
    """``(m, k) @ (k,)``: m * k."""
    return stored_product(a, Shape((*x, 1)))


@register_op_cost("aten::dot")
@register_op_cost("aten::vdot")
def dot(x: Shape, y: Shape, *, out: Shape) -> Cost:
    """``(k,) . (k,)``: k."""
    return Cost.of_macs(x.numel)


@register_op_cost("aten::addmv")
def addmv(bias: Shape, a: Shape, x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + a @ x``: m * k, and an addition for each output element."""
    return Cost.of_macs(a.numel, out.numel)


@register_op_cost("aten::addr")
def addr(bias: Shape, x: Shape, y: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + outer(x, y)``: one multiply-accumulate for each output element."""
    return Cost.of_macs(out.numel)


@register_op_cost("aten::_cdist_forward")
@register_op_cost("aten::_euclidean_dist")
@register_op_cost("aten::_pdist_forward")
def cdist(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Subtract, power and add for each pair of points and each of their coordinates."""
    return Cost(0, 3 * out.numel * x[-1])


@register_op_cost("aten::_trilinear")
def trilinear(a: Shape, b: Shape, c: Shape, ea: Any, eb: Any, ec: Any, sumdim: Any, *_: Any, out: Shape) -> Cost:
    """The bilinear layer's product of three: each of the ``a * b`` products, of all elements they range over, with c.

    For ``x1 (n, i)``, ``weight (o, i, j)`` and ``x2 (n, j)`` that is n * o * i * j multiply-accumulates, and as many
    multiplications again for the second factor.
    """
    ranged = _with_ones(a, ea), _with_ones(b, eb), _with_ones(c, ec)
    macs = Shape(max(sizes) for sizes in zip(*ranged, strict=True)).numel
    return Cost.of_macs(macs, macs)


def _with_ones(shape: Shape, expanded: Any) -> list[int]:
    sizes = list(shape)
    for position in sorted(expanded):
        sizes.insert(position, 1)
    return sizes


@register_op_cost("aten::linalg_cross")
def cross(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Two products and a subtraction for each output element."""
    return Cost(0, 3 * out.numel)


@register_op_cost("aten::_compute_linear_combination")
def linear_combination(x: Shape, coefficients: Shape, *, out: Shape) -> Cost:
    """``coefficients @ x``, over all else that x has: one multiply-accumulate for each coefficient and element."""
    return Cost.of_macs(coefficients[0] * x.numel)
