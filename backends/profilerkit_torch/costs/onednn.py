"""Products that oneDNN and MKL run together with what follows them, on floats and on quantized integers."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import constants, matmul

from .convolution import cost_of_convolution
from .registry import Cost, Shape, register_op_cost, register_op_costs


def _cost_of_fused_operator(out: Shape) -> Cost:
    """Return the cost of an element-wise operator that is fused with a product, whichever it is."""
    return Cost(0, out.numel * constants.ELEMENTWISE)


@register_op_costs("onednn::qlinear_pointwise", "onednn::linear_relu_dynamic_fp16", "mkldnn::_linear_pointwise")
def pointwise_linear(x: Shape, *arguments: Any, out: Shape, **__: Any) -> Cost:
    """``x @ weight + bias`` and an element-wise operator: out * in_features, an addition, and one for each output."""
    return matmul.product(x.numel * out[-1], out.numel).plus(_cost_of_fused_operator(out))


@register_op_cost("mkldnn::_convolution_pointwise")
def pointwise_convolution(x: Shape, weight: Shape, bias: Shape | None, *_: Any, out: Shape, **__: Any) -> Cost:
    """Cost of the convolution, and of an element-wise operator: one for each output element."""
    return cost_of_convolution(x, weight, bias, out).plus(_cost_of_fused_operator(out))


@register_op_costs("mkldnn::_convolution_pointwise.binary", "mkldnn::_convolution_pointwise_.binary")
def convolution_and_sum(x: Shape, y: Shape, weight: Shape, bias: Shape | None, *_: Any, out: Shape, **__: Any) -> Cost:
    """Cost of the convolution, and of a sum with what is there: one for each output element."""
    return cost_of_convolution(x, weight, bias, out).plus(_cost_of_fused_operator(out))


@register_op_costs(
    "onednn::qconv1d_pointwise onednn::qconv2d_pointwise onednn::qconv3d_pointwise onednn::qconv_pointwise",
)
def pointwise_convolution_on_integers(
    x: Shape, scale: Any, zero: Any, weight: Shape, *further: Any, out: Shape, **__: Any
) -> Cost:
    """Cost of the convolution and a bias, given or not; what follows it in the same operator works on integers."""
    return cost_of_convolution(x, weight, Shape(), out)


@register_op_cost("mkl::_mkl_linear")
def mkl_linear(x: Shape, packed: Any, weight: Shape, bias: Shape | None, *_: Any, out: Shape) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element where there is a bias."""
    return matmul.product(x.numel * weight[0], out.numel if bias is not None else 0)
