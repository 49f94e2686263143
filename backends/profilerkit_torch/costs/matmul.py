"""Matrix products: one multiply-accumulate for each output element and each element summed over."""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost


@register_op_cost("aten::mm")
@register_op_cost("aten::_int_mm")
@register_op_cost("aten::_scaled_mm")
def mm(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``(m, k) @ (k, n)``: m * k * n."""
    return Cost.of_macs(a.numel * b[-1])


@register_op_cost("aten::bmm")
def bmm(a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``(b, m, k) @ (b, k, n)``: b * m * k * n."""
    return Cost.of_macs(a.numel * b[-1])


@register_op_cost("aten::addmm")
@register_op_cost("aten::addmm_")
def addmm(bias: Shape, a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + a @ b``: m * k * n, and an addition for each output element."""
    return Cost.of_macs(a.numel * b[-1], out.numel)


@register_op_cost("aten::baddbmm")
@register_op_cost("aten::baddbmm_")
def baddbmm(bias: Shape, a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + a @ b`` in batches: b * m * k * n, and an addition for each output element."""
    return Cost.of_macs(a.numel * b[-1], out.numel)


@register_op_cost("aten::addbmm")
@register_op_cost("aten::addbmm_")
def addbmm(bias: Shape, a: Shape, b: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + sum of a @ b over the batch``: b * m * k * n, and an addition for each output element."""
    return Cost.of_macs(a.numel * b[-1], out.numel)


@register_op_cost("aten::linear")
def linear(x: Shape, weight: Shape, bias: Shape | None = None, *, out: Shape) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element where there is a bias."""
    return Cost.of_macs(x.numel * (weight[0] if len(weight) == 2 else 1), out.numel if bias is not None else 0)


@register_op_cost("quantized::linear")
@register_op_cost("quantized::linear_relu")
@register_op_cost("quantized::linear_dynamic")
@register_op_cost("quantized::linear_relu_dynamic")
def quantized_linear(x: Shape, packed: Any, *_: Any, out: Shape, **__: Any) -> Cost:
    """``x @ weight.T``: out * in_features; whether there is a bias is packed away with the weight."""
    return Cost.of_macs(x.numel * out[-1])


@register_op_cost("aten::mv")
def mv(a: Shape, x: Shape, *, out: Shape) -> Cost:
    """``(m, k) @ (k,)``: m * k."""
    return Cost.of_macs(a.numel)


@register_op_cost("aten::dot")
@register_op_cost("aten::vdot")
def dot(x: Shape, y: Shape, *, out: Shape) -> Cost:
    """``(k,) . (k,)``: k."""
    return Cost.of_macs(x.numel)


@register_op_cost("aten::addmv")
@register_op_cost("aten::addmv_")
def addmv(bias: Shape, a: Shape, x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``bias + a @ x``: m * k, and an addition for each output element."""
    return Cost.of_macs(a.numel, out.numel)


@register_op_cost("aten::addr")
@register_op_cost("aten::addr_")
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
