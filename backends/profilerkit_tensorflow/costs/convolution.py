"""Convolutions in one to three dimensions: grouped, depthwise, dilated, transposed, and their gradients.

A convolution multiplies each output element with one filter: ``out * (in_channels / groups) * kernel``. TensorFlow's
filter is ``(*kernel, in_channels / groups, out_channels)``, also for data of other formats, except the formats that
`count_filter_elements` names. A transposed convolution is the gradient of a convolution, and has as many
multiply-accumulates. Padding counts as if it were data. One-dimensional convolutions are two-dimensional ones in a
graph.

The inputs of a gradient by the input are the sizes of the input, the filter, and the gradient of the output. The inputs
of a gradient by the filter are the input, the sizes of the filter (or the filter itself), and the gradient of the
output.
"""

from __future__ import annotations

from profilerkit.costs import convolution

from .registry import Cost, OpCall, Shape, register_op_cost, register_op_costs


def count_filter_elements(call: OpCall, filters: Shape) -> int:
    """Return the elements of the filter that makes one output element; two formats have the output channels first."""
    is_vectorized = call.attribute("data_format") == "NCHW_VECT_C"  # the filter is (out, in / 4, height, width, 4)
    if is_vectorized or call.attribute("filter_format") == "OIHW":
        return Shape(filters[1:]).numel
    return Shape(filters[:-1]).numel


def count_kernel_elements(filters: Shape) -> int:
    """Return the elements of a depthwise filter, ``(*kernel, in_channels, multiplier)``, for one output element."""
    return Shape(filters[:-2]).numel


@register_op_costs("Conv", "Conv2D", "Conv3D")
def conv(call: OpCall) -> Cost:
    """``out * (in_channels / groups) * kernel``."""
    return convolution.convolution(call.outputs[0].numel, count_filter_elements(call, call.inputs[1]))


@register_op_cost("DepthwiseConv2dNative")
def depthwise_conv(call: OpCall) -> Cost:
    """``out * kernel``: each output channel sees one input channel."""
    return convolution.convolution(call.outputs[0].numel, count_kernel_elements(call.inputs[1]))


def _read_filter_of_gradient(call: OpCall) -> Shape:
    """Return the shape of the filter; of a gradient by it, from the sizes, as a graph may not know the output's."""
    sizes = call.value(1) if "BackpropFilter" in call.type else None
    if sizes is not None and sizes.ndim == 1:  # it is not the filter itself
        return Shape(int(size) for size in sizes)
    shape: Shape = call.inputs[1] if "BackpropInput" in call.type else call.outputs[0]
    return shape


@register_op_costs(
    *("Conv2DBackpropInput", "Conv2DBackpropInputV2", "Conv3DBackpropInputV2"),
    *("Conv2DBackpropFilter", "Conv2DBackpropFilterV2", "Conv3DBackpropFilterV2"),
)
def gradient(call: OpCall) -> Cost:
    """``out * (in_channels / groups) * kernel`` of the convolution; the third input has the shape of its output."""
    return convolution.convolution(call.inputs[2].numel, count_filter_elements(call, _read_filter_of_gradient(call)))


@register_op_costs("DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter")
def depthwise_gradient(call: OpCall) -> Cost:
    """``out * kernel`` of the convolution."""
    return convolution.convolution(call.inputs[2].numel, count_kernel_elements(_read_filter_of_gradient(call)))


@register_op_cost("Dilation2D")
def dilation(call: OpCall) -> Cost:
    """An addition and a comparison for each element of the window, which is the filter's first two dimensions."""
    return convolution.dilation(call.outputs[0].numel, Shape(call.inputs[1][:2]).numel)
