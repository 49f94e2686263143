"""Products of low precision, with scales beside the matrices: they count as products of the matrices they stand for.

Applying the scales is part of how the numbers are stored and is not counted. Two floats of 4 bits share an element of a
tensor; formulas get the shape of the matrix of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.costs import activation as activations
from profilerkit.costs import matmul

from .registry import Cost, Shape, register_by_name, register_op_cost, register_op_costs


@register_op_cost("aten::_int_mm")
def int_mm(a: Shape, b: Shape, *, out: Shape) -> Cost:
    """``(m, k) @ (k, n)``: m * k * n."""
    return matmul.product(a.numel * b[-1])


# With scales beside both matrices: ``(m, k) @ (k, n) + bias`` ---------------------------------------------------------


def _multiply_and_add(a: Shape, b: Shape, bias: Shape | None) -> Cost:
    """Return m * k * n, and an addition for each output element where there is a bias."""
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
    """A product for each of g groups, among which the dimension is divided that the shapes do not have g times.

    - The rows, ``(m, k) @ (g, k, n)``, the columns, ``(g, m, k) @ (k, n)``, or what is summed over,
      ``(m, k) @ (k, n)``: m * k * n in all.
    - None of them, ``(g, m, k) @ (g, k, n)``: g * m * k * n.
    """
    if len(a) == 3 and len(b) == 2:
        return matmul.product(b.numel * a[-2])
    return matmul.product(a.numel * b[-1])


@register_op_cost("transformers::grouped_mm_fallback_backward")
def gradients_of_mm_by_group(a: Shape, b: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """As much as ``mm_by_group`` for the gradient of the rows, and again for that of the weights."""
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
    """``(m, k) @ (n, k).T``: m * k * n; n is read from the output, as the packed weight has a shape of its own."""
    return matmul.product(x.numel * out[-1])


@register_op_costs("bitsandbytes::gemv_4bit bitsandbytes::gemm_4bit")
def mm_4bit(
    x: Shape, packed: Any, shape: Sequence[int], scales: Any, code: Any, block: Any, bias: Any = None, *_: Any, out: Any
) -> Cost:
    """``(m, k) @ (n, k).T + bias``: m * k * n; the weight has its shape beside it."""
    outputs = x.numel // max(1, shape[1]) * shape[0]
    return matmul.product(x.numel * shape[0], outputs if isinstance(bias, Shape) else 0)


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
    """``activation(x @ weight + bias)``: out * in_features, and an addition for each output where there is a bias."""
    cost = matmul.product(x.numel * out[-1], out.numel if bias is not None else 0)
    return activations.add_activation(cost, out.numel, None if activation == "none" else activation)
