"""Going to quantized integers and back: which operator goes to which formula."""

from __future__ import annotations

from profilerkit.costs import quantization

from .registry import OPERATORS, Cost, NodeCall

_BACK = ("DequantizeLinear", "com.microsoft::DequantizeLinear", "com.microsoft::GatherBlockQuantized")
OPERATORS.register_elementwise(quantization.dequantize, *_BACK)


@OPERATORS.register_all("QuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize(call: NodeCall) -> Cost:
    """``clamp(round(x / scale) + zero_point)``."""
    return quantization.quantize(call.inputs[0].numel)


@OPERATORS.register_all("DynamicQuantizeLinear")
def quantize_by_range(call: NodeCall) -> Cost:
    """The range of the values is found first."""
    return quantization.quantize(call.inputs[0].numel, finds_range=True)


#: Work on integers alone, whose scales are folded into tables and shifts: it costs nothing, as in the other backends.
_OF_INTEGERS = """
    QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean
    QLinearSigmoid QLinearSoftmax QLinearWhere
"""
OPERATORS.register_free(*(f"com.microsoft::{name}" for name in _OF_INTEGERS.split()))
