"""Quantized products, and conversions to and from quantized integers.

Multiply-accumulates of integers count like multiply-accumulates of floats. The operations after products (bias, ReLU,
requantization) are on integers and count nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from profilerkit.costs import quantization

from .convolution import conv, depthwise_conv
from .matmul import matrix_product
from .registry import Cost, OpCall, register_elementwise, register_free, register_op_costs

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
    RequantizationRangePerChannel Requantize RequantizePerChannel _QuantizedMaxPool3D
"""


for _names, _product in ((_CONVOLUTIONS, conv), (_DEPTHWISE, depthwise_conv), (_PRODUCTS, matrix_product)):
    register_op_costs(*_names.split())(_product)


def _register_elements(formula: Callable[[int], Cost], *names: str) -> None:
    @register_op_costs(*names)
    def elements(call: OpCall) -> Cost:
        """Return the cost for each element: the arithmetic is on floats, although the quantized dtypes are not."""
        return formula(call.outputs[0].numel)


@register_op_costs("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def quantize_and_dequantize(call: OpCall) -> Cost:
    """Return the cost of quantizing and dequantizing, and of finding the range if it is not an argument."""
    return quantization.fake_quantize(call.outputs[0].numel, finds_range=call.attribute("range_given") is False)


_register_elements(quantization.quantize, "QuantizeV2")
_register_elements(quantization.dequantize, "Dequantize")
_register_elements(
    quantization.fake_quantize,
    *("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"),
)

register_elementwise(quantization.fake_quantize_gradient, "FakeQuantWithMinMaxArgsGradient")
register_elementwise(
    partial(quantization.fake_quantize_gradient, by_bounds=True),
    *("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient", "QuantizeAndDequantizeV4Grad"),
)

register_free(*_INTEGERS.split())
