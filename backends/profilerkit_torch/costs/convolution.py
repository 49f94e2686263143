"""Convolutions in one to three dimensions and their gradients: which operator goes to which formula.

A weight is ``(out_channels, in_channels / groups, *kernel)``, or ``(in_channels, out_channels / groups, *kernel)`` if
transposed. All dimensions but the first are the filter of one output element (of one input element, if transposed).

Functions take the arguments of operators by torch's names, tensors as shapes; ``**_`` takes those without a cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.costs import activation, constants, convolution

from .families import register_by_name
from .registry import Cost, Shape, register_op_cost


def cost_of_convolution(x: Shape, weight: Shape, bias: Shape | None, out: Shape, transposed: bool = False) -> Cost:
    """Return the cost of a convolution of either kind."""
    filtered = x if transposed else out
    return convolution.convolution(filtered.numel, Shape(weight[1:]).numel, out.numel if bias is not None else 0)


@register_by_name(
    "aten::conv1d aten::conv2d aten::conv3d aten::cudnn_convolution aten::miopen_convolution",
    "aten::miopen_depthwise_convolution aten::mkldnn_convolution aten::_mps_convolution",
    "aten::_nnpack_spatial_convolution aten::_conv_depthwise2d aten::conv_depthwise3d aten::_slow_conv2d_forward",
    "aten::slow_conv3d_forward aten::slow_conv_dilated2d aten::slow_conv_dilated3d",
)
def conv(*, x: Shape, weight: Shape, bias: Shape | None = None, out: Shape, **_: Any) -> Cost:
    """``out * (in_channels / groups) * kernel``, and an addition for each output element if there is a bias."""
    return cost_of_convolution(x, weight, bias, out)


@register_by_name(
    "aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d aten::cudnn_convolution_transpose",
    "aten::miopen_convolution_transpose aten::_mps_convolution_transpose aten::slow_conv_transpose2d",
    "aten::slow_conv_transpose3d",
)
def conv_transpose(*, x: Shape, weight: Shape, bias: Shape | None = None, out: Shape, **_: Any) -> Cost:
    """``in * (out_channels / groups) * kernel``, and an addition for each output element if there is a bias."""
    return cost_of_convolution(x, weight, bias, out, transposed=True)


@register_by_name("aten::convolution", "aten::_convolution", "aten::convolution_overrideable")
def either_convolution(*, x: Shape, weight: Shape, bias: Shape | None, transposed: bool, out: Shape, **_: Any) -> Cost:
    """Return the cost of either kind, by the ``transposed`` flag."""
    return cost_of_convolution(x, weight, bias, out, transposed)


@register_by_name("aten::cudnn_convolution_relu", "aten::miopen_convolution_relu")
def convolution_relu(*, x: Shape, weight: Shape, bias: Shape | None, out: Shape, **_: Any) -> Cost:
    """Cost of a convolution, and one operation for each output element."""
    return cost_of_convolution(x, weight, bias, out).plus(activation.relu(out.numel))


@register_by_name("aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu")
def convolution_add_relu(*, x: Shape, weight: Shape, bias: Shape | None, out: Shape, **_: Any) -> Cost:
    """Cost of a convolution, and two operations for each output element."""
    added = Cost(0, out.numel * constants.ADD)
    return cost_of_convolution(x, weight, bias, out).plus(added).plus(activation.relu(out.numel))


@register_op_cost("aten::conv_tbc")
def convolution_of_time_first(x: Shape, weight: Shape, bias: Shape, *_: Any, out: Shape) -> Cost:
    """``out * in_channels * kernel`` of a weight ``(kernel, in, out)``, and an addition for each output element."""
    return convolution.convolution(out.numel, weight[0] * weight[1], out.numel)


@register_by_name("aten::convolution_backward", "aten::convolution_backward_overrideable")
def convolution_backward(
    *, dy: Shape, x: Shape, weight: Shape, transposed: bool, output_mask: Sequence[bool], out: Any, **_: Any
) -> Cost:
    """As much as the forward pass for the input's gradient, and again for the weight's; the bias takes the sum."""
    return _gradient(x if transposed else dy, dy, weight, output_mask)


def _gradient(filtered: Shape, dy: Shape, weight: Shape, output_mask: Sequence[bool]) -> Cost:
    """Return the cost of the gradients that ``output_mask`` asks for: of input, weight and bias.

    ``filtered`` has an element for each filter of the forward pass: the output, or the input if transposed.
    """
    biased = dy.numel if output_mask[2] else 0
    return convolution.convolution_gradient(filtered.numel, Shape(weight[1:]).numel, sum(output_mask[:2]), biased)


@register_by_name("aten::_slow_conv2d_backward.output_mask", "aten::mps_convolution_backward")
def native_gradient(*, dy: Shape, weight: Shape, output_mask: Sequence[bool], out: Any, **_: Any) -> Cost:
    """Like ``convolution_backward``."""
    return _gradient(dy, dy, weight, output_mask)


@register_by_name("aten::mps_convolution_transpose_backward")
def metal_transposed_gradient(
    *, x: Shape, dy: Shape, weight: Shape, output_mask: Sequence[bool], out: Any, **_: Any
) -> Cost:
    """Like ``convolution_backward`` of a transposed convolution; the mask has no entry for the bias."""
    return _gradient(x, dy, weight, (*output_mask, False))
