"""Quantised products, going to quantised integers and back.

The multiply-accumulates of products over integers count as those over floats. What follows them (bias, ReLU,
requantising) is work on integers: none.
"""

from __future__ import annotations

from collections.abc import Callable

from .convolution import conv, depthwise_conv
from .matmul import matmul
from .registry import Cost, OpCall, Shape, UnknownCostError, register_elementwise, register_free, register_op_cost

_CONVOLUTIONS = """
    QuantizedConv2D QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize
    QuantizedConv2DPerChannel QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu
    QuantizedConv2DWithBiasAndReluAndRequantize QuantizedConv2DWithBiasAndRequantize
    QuantizedConv2DWithBiasSignedSumAndReluAndRequantize QuantizedConv2DWithBiasSumAndRelu
    QuantizedConv2DWithBiasSumAndReluAndRequantize _FusedQuantizedConv2D
"""
_DEPTHWISE = """
    QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias QuantizedDepthwiseConv2DWithBiasAndRelu
    QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize _FusedQuantizedDepthwiseConv2D
"""
_PRODUCTS = """
    QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu
    QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize _QuantizedMatMul
"""
_INTEGERS = """
    QuantizeDownAndShrinkRange QuantizedAdd QuantizedAvgPool QuantizedBiasAdd QuantizedConcat QuantizedConcatV2
    QuantizedMaxPool QuantizedMul QuantizedRelu QuantizedRelu6 QuantizedReluX QuantizedReshape RequantizationRange
    RequantizationRangePerChannel Requantize RequantizePerChannel UniformQuantizedAdd UniformQuantizedClipByValue
    UniformRequantize _QuantizedMaxPool3D
"""


def _register(name: str, product: Callable[[OpCall], Cost]) -> None:
    @register_op_cost(name)
    def quantised(call: OpCall) -> Cost:
        """Return the multiply-accumulates of the product over floats."""
        return product(call)


for _names, _product in ((_CONVOLUTIONS, conv), (_DEPTHWISE, depthwise_conv), (_PRODUCTS, matmul)):
    for _name in _names.split():
        _register(_name, _product)


@register_op_cost("UniformQuantizedDot")
@register_op_cost("UniformQuantizedDotHybrid")
def uniform_dot(call: OpCall) -> Cost:
    """``(m, k) @ (k, n)``: m * k * n."""
    return Cost.of_macs(call.inputs[0].numel * call.inputs[1][1])


@register_op_cost("UniformQuantizedConvolution")
@register_op_cost("UniformQuantizedConvolutionHybrid")
def uniform_convolution(call: OpCall) -> Cost:
    """``out * (in_channels / groups) * kernel`` of a filter that starts with its output channels, as is the default."""
    if call.attribute("dimension_numbers"):
        raise UnknownCostError
    return Cost.of_macs(call.outputs[0].numel * Shape(call.inputs[1][1:]).numel)


def _elements(operations: int, range_operations: int = 0) -> Callable[[OpCall], Cost]:
    def formula(call: OpCall) -> Cost:
        """Return the operations for each element, and those that find the range where it is not given."""
        finds_range = call.attribute("range_given") is False
        return Cost(0, (operations + range_operations * finds_range) * call.outputs[0].numel)

    return formula


# clamp(round(x / scale) + zero_point): scale, round and two comparisons. The dtypes of quantised outputs are no floats,
# so that these are formulas and no element-wise operators.
for _name in ("QuantizeV2", "UniformQuantize"):
    register_op_cost(_name, _elements(4))
# (x - zero_point) * scale
for _name in ("Dequantize", "UniformDequantize", "XlaDequantize"):
    register_op_cost(_name, _elements(2))
# There and back; the range takes two comparisons for each element where it is to be found.
for _name in ("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"):
    register_op_cost(_name, _elements(4 + 2, 2))
for _name in ("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"):
    register_op_cost(_name, _elements(4 + 2))

# The gradient passes where the input is inside the range; what is outside adds up to the gradients of the bounds.
register_elementwise(1, "FakeQuantWithMinMaxArgsGradient")
register_elementwise(3, "FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient")
register_elementwise(3, "QuantizeAndDequantizeV4Grad")

register_free(*_INTEGERS.split())
