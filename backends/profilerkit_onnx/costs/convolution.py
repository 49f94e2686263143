"""Convolutions: which operator goes to which formula.

The layout is channels first; a weight is ``(out, in / groups, *kernel)``.
"""

from __future__ import annotations

from profilerkit.costs import convolution

from .activation import add_activation
from .registry import OPERATORS, Cost, NodeCall, Shape, register_op_cost


@OPERATORS.register_all("Conv", "com.microsoft::NhwcConv")
def conv(call: NodeCall) -> Cost:
    """Each output element meets one filter, and a bias if there is one."""
    return _convolve(call, 1, 2)


@OPERATORS.register_all("com.microsoft::FusedConv", "com.microsoft::NhwcFusedConv", "com.microsoft.nchwc::Conv")
def conv_and_activation(call: NodeCall) -> Cost:
    """A convolution, the addition of another tensor if there is one, and an activation.

    In the blocked layout of onnxruntime, the channels that pad a block count too, because they are computed.
    """
    cost = _convolve(call, 1, 2)
    if call.has_input(3):
        cost = cost.plus(convolution.convolution(0, 0, call.outputs[0].numel))
    return add_activation(cost, call)


@register_op_cost("ConvInteger")
def conv_integer(call: NodeCall) -> Cost:
    """The products of integers count like products of floats."""
    return _convolve(call, 1, None)


@OPERATORS.register_all("QLinearConv", "com.microsoft::QLinearConv")
def conv_on_integers(call: NodeCall) -> Cost:
    """The products of integers count like products of floats; the bias is an integer, and costs nothing."""
    return _convolve(call, 3, None)


def _convolve(call: NodeCall, weight: int, bias: int | None) -> Cost:
    out = call.outputs[0].numel
    filter_elements = Shape(call.inputs[weight][1:]).numel
    biased = out if bias is not None and call.has_input(bias) else 0
    return convolution.convolution(out, filter_elements, biased)


@register_op_cost("ConvTranspose")
def conv_transpose(call: NodeCall) -> Cost:
    """Each input element meets one filter of the weight ``(in, out / groups, *kernel)``."""
    biased = call.outputs[0].numel if call.has_input(2) else 0
    return convolution.convolution(call.inputs[0].numel, Shape(call.inputs[1][1:]).numel, biased)


@register_op_cost("DeformConv")
def deform_conv(call: NodeCall) -> Cost:
    """A convolution of elements that are first taken between neighbours, for each output position and kernel place."""
    out, weight = call.outputs[0], call.inputs[1]
    taken = call.inputs[0][1] * Shape(weight[2:]).numel
    sampled = out[0] * taken * Shape(out[2:]).numel
    biased = out.numel if call.has_input(3) else 0
    return convolution.deformable_convolution(out.numel, Shape(weight[1:]).numel, sampled, call.has_input(4), biased)
