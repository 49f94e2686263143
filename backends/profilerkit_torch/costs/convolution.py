"""Convolutions in one to three dimensions: grouped, depthwise, dilated, transposed.

A convolution multiplies each output element with one filter: ``out * (in_channels / groups) * kernel``. A transposed
one does so with each input element: ``in * (out_channels / groups) * kernel``. Padding counts as if it were data.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Shape, register_op_cost


def _convolution(x: Shape, weight: Shape, bias: Shape | None, out: Shape, transposed: bool = False) -> Cost:
    one_filter = Shape(weight[1:]).numel
    macs = (x.numel if transposed else out.numel) * one_filter
    return Cost.of_macs(macs, out.numel if bias is not None else 0)


@register_op_cost("aten::conv1d")
@register_op_cost("aten::conv2d")
@register_op_cost("aten::conv3d")
def conv(x: Shape, weight: Shape, bias: Shape | None = None, *_: Any, out: Shape, **__: Any) -> Cost:
    """``out * (in_channels / groups) * kernel``, and an addition for each output element where there is a bias."""
    return _convolution(x, weight, bias, out)


@register_op_cost("aten::conv_transpose1d")
@register_op_cost("aten::conv_transpose2d")
@register_op_cost("aten::conv_transpose3d")
def conv_transpose(x: Shape, weight: Shape, bias: Shape | None = None, *_: Any, out: Shape, **__: Any) -> Cost:
    """``in * (out_channels / groups) * kernel``, and an addition for each output element where there is a bias."""
    return _convolution(x, weight, bias, out, transposed=True)


@register_op_cost("aten::convolution")
@register_op_cost("aten::_convolution")
@register_op_cost("aten::convolution_overrideable")
def convolution(
    x: Shape,
    weight: Shape,
    bias: Shape | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *_: Any,
    out: Shape,
    **__: Any,
) -> Cost:
    """Return the cost of either kind, as the ``transposed`` flag says."""
    return _convolution(x, weight, bias, out, transposed)


@register_op_cost("aten::convolution_backward")
def convolution_backward(
    gradient: Shape,
    x: Shape,
    weight: Shape,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    wanted: tuple[bool, bool, bool],
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """As much as the forward pass for the input's gradient, and again for the weight's; the bias takes the sum."""
    forward = _convolution(x, weight, None, gradient, transposed)
    return Cost.of_macs(forward.macs * sum(wanted[:2]), gradient.numel if wanted[2] else 0)
