"""Quantised products: the multiply-accumulates of the same products over floats, and nothing for the integers after."""

from __future__ import annotations

from calls import raw_cost, spec
from tensorflow.core.util.quantization import uniform_quant_ops_attr_pb2

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


def test_uniformly_quantised_products() -> None:
    ends = {f"rhs_quantization_{end}_val": value for end, value in (("min", -128), ("max", 127))}
    points = {"rhs_scales": SCALAR, "rhs_zero_points": spec(dtype="int32")}
    hybrid = raw_cost(
        "UniformQuantizedDotHybrid", lhs=spec(2, 3), rhs=spec(3, 4, dtype=I8), Tout="float32", **points, **ends
    )
    assert hybrid == (2 * 3 * 4, 2 * 2 * 3 * 4)
    convolution = {
        "lhs": spec(2, 3, 8, 8),
        "rhs": spec(16, 3, 3, 3, dtype=I8),
        "Tout": "float32",
        "padding": "VALID",
        **points,
        **ends,
    }
    macs = (2 * 16 * 6 * 6) * (3 * 3 * 3)
    assert raw_cost("UniformQuantizedConvolutionHybrid", **convolution) == (macs, 2 * macs)
    # Turned round with a stride of 2, no product with one of the zeros in between counts, as for Conv2DBackpropInput.
    turned = {**convolution, "lhs_dilation": [2, 2], "feature_group_count": 2, "lhs": spec(2, 6, 8, 8)}
    macs = (2 * 6 * 8 * 8) * (16 // 2 * 3 * 3)
    assert raw_cost("UniformQuantizedConvolutionHybrid", **turned) == (macs, 2 * macs)


def test_quantised_convolution_with_dimensions_of_its_own_is_not_counted() -> None:
    ends = {f"rhs_quantization_{end}_val": value for end, value in (("min", -128), ("max", 127))}
    points = {"rhs_scales": SCALAR, "rhs_zero_points": spec(dtype="int32")}
    numbers = uniform_quant_ops_attr_pb2.UniformQuantizedConvolutionDimensionNumbersAttr(
        input_feature_dimension=3,
        input_spatial_dimensions=[1, 2],
        kernel_input_feature_dimension=2,
        kernel_output_feature_dimension=3,
        kernel_spatial_dimensions=[0, 1],
        output_feature_dimension=3,
        output_spatial_dimensions=[1, 2],
    )
    found = raw_cost(
        "UniformQuantizedConvolutionHybrid",
        lhs=spec(2, 8, 8, 3),
        rhs=spec(3, 3, 3, 16, dtype=I8),
        Tout="float32",
        padding="VALID",
        dimension_numbers=numbers.SerializeToString(),
        **points,
        **ends,
    )
    assert found is None
