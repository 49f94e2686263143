"""Quantised products: the multiply-accumulates of the same products over floats, and nothing for the integers after."""

from __future__ import annotations

from calls import raw_cost, spec

CONV = {"strides": [1, 1, 1, 1], "padding": "SAME"}
MACS = (2 * 8 * 8 * 16) * (3 * 3 * 3)
SCALAR = spec()
RANGES = {f"{bound}_{what}": SCALAR for what in ("input", "filter") for bound in ("min", "max")}
U8, I8 = "quint8", "qint8"


def test_quantised_convolutions() -> None:
    inputs = {"input": spec(2, 8, 8, 3, dtype=U8), "filter": spec(3, 3, 3, 16, dtype=I8), **RANGES}
    assert raw_cost("QuantizedConv2D", **inputs, **CONV) == (MACS, 2 * MACS)
    assert raw_cost("QuantizedConv2DWithBiasAndRelu", bias=spec(16), **inputs, **CONV) == (MACS, 2 * MACS)
    depthwise_inputs = {**inputs, "filter": spec(3, 3, 3, 2, dtype=I8)}
    macs = (2 * 8 * 8 * 6) * 9
    assert raw_cost("QuantizedDepthwiseConv2D", **depthwise_inputs, **CONV) == (macs, 2 * macs)


def test_quantised_matmuls() -> None:
    inputs = {"a": spec(2, 3, dtype=U8), "b": spec(4, 3, dtype=I8), "transpose_b": True}
    ranges = {f"{bound}_{what}": SCALAR for what in "ab" for bound in ("min", "max")}
    assert raw_cost("QuantizedMatMul", **inputs, **ranges) == (24, 48)
    assert raw_cost("QuantizedMatMulWithBias", bias=spec(4), **inputs, **ranges) == (24, 48)
