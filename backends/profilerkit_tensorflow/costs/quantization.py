"""Conversions to and from quantized integers; the products of quantized layers of Keras are ordinary operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from profilerkit.costs import quantization

from .registry import Cost, OpCall, register_elementwise, register_op_costs


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
