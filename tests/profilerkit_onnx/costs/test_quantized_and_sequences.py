"""Quantized products, short Fourier transforms and sequences: closed forms with the sizes written out."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import TensorProto, helper
from onnx_graphs import BACKEND, F, make_graph, make_model, trace_node

from profilerkit import ModelInputs, profile

U8, S8 = np.uint8, np.int8
SCALE, ZERO = np.asarray([0.5], F), np.asarray([1], U8)


def ones(*shape: int, dtype: Any = F) -> Any:
    return np.ones(shape, dtype)


@pytest.mark.parametrize(
    ("first", "second", "out", "macs"),
    [
        ((5, 3), (3, 4), (5, 4), 5 * 3 * 4),
        ((2, 5, 3), (2, 3, 4), (2, 5, 4), 2 * 60),
        ((2, 5, 3), (3, 4), (2, 5, 4), 120),
    ],
)
def test_quantized_matrix_products(first: Any, second: Any, out: Any, macs: int) -> None:
    """The scales are part of how numbers are stored, and no arithmetic."""
    model = make_model(
        [helper.make_node("QLinearMatMul", ["a", "as", "az", "b", "as", "az", "as", "az"], ["y"])],
        {"a": ones(*first, dtype=U8)},
        {"as": SCALE[0], "az": ZERO[0], "b": ones(*second, dtype=U8)},
        opset=20,
    )
    trace = BACKEND.trace(model, ModelInputs(ones(*first, dtype=U8)))
    assert (trace.failure, trace.missing, trace.operators[0].outputs[0].shape) == (None, (), out)
    assert (trace.macs, trace.flops) == (macs, 2 * macs)


@pytest.mark.parametrize(
    ("filters", "attributes", "out", "macs"),
    [
        ((4, 6, 3, 3), {}, (2, 4, 6, 8), 384 * 54),
        ((4, 6, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}, (2, 4, 4, 5), 160 * 54),
        ((6, 1, 3, 3), {"group": 6}, (2, 6, 6, 8), 576 * 9),
        ((4, 3, 3, 3), {"group": 2, "dilations": [2, 2]}, (2, 4, 4, 6), 192 * 27),
    ],
)
@pytest.mark.parametrize("biased", [False, True])
def test_quantized_convolutions(filters: Any, attributes: dict[str, Any], out: Any, macs: int, biased: bool) -> None:
    """The bias is of integers, and costs nothing."""
    names = ["x", "s", "z", "w", "s", "z", "s", "z", *(["b"] if biased else [])]
    weights = {"s": SCALE[0], "z": ZERO[0], "w": ones(*filters, dtype=U8), "b": ones(filters[0], dtype=np.int32)}
    image = ones(2, 6, 8, 10, dtype=U8)
    model = make_model([helper.make_node("QLinearConv", names, ["y"], **attributes)], {"x": image}, weights, opset=20)
    trace = BACKEND.trace(model, ModelInputs(image))
    assert (trace.failure, trace.missing, trace.operators[0].outputs[0].shape) == (None, (), out)
    assert (trace.macs, trace.flops) == (macs, 2 * macs)


@pytest.mark.parametrize("dtype", [U8, S8])
def test_dynamically_quantized_products_as_the_quantizer_writes_them(dtype: Any) -> None:
    """``DynamicQuantizeLinear`` (six operations an element), ``MatMulInteger``, and two products with the scales."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=1),
        helper.make_node("Mul", ["s", "ws"], ["scale"]),
        helper.make_node("Mul", ["f", "scale"], ["y"]),
    ]
    weights = {"w": ones(3, 4, dtype=dtype), "wz": np.zeros(1, dtype), "ws": SCALE}
    trace = BACKEND.trace(make_model(nodes, {"x": ones(5, 3)}, weights, opset=20), ModelInputs(ones(5, 3)))
    assert (trace.failure, trace.missing, trace.macs) == (None, (), 60)
    assert trace.flops == 120 + 6 * 15 + 1 + 20


@pytest.mark.parametrize("windowed", [False, True])
def test_short_time_fourier_transforms(windowed: bool) -> None:
    """A signal of 32 in frames of 8, each 4 further: 7 frames for each of 2 samples, of half the 5 n log2 n operations.

    The window is a product for each element of a frame.
    """
    signal, step, length = ones(2, 32, 1), np.asarray(4, np.int64), np.asarray(8, np.int64)
    trace = trace_node("STFT", signal, step, ones(8) if windowed else None, length, opset=20)
    assert trace.missing == ()
    assert trace.flops == 2 * 7 * (round(2.5 * 8 * 3) + windowed * 8)


@pytest.mark.parametrize(("attributes", "bins"), [({}, 5), ({"onesided": 1}, 5), ({"onesided": 0}, 8)])
def test_half_of_a_spectrum_is_the_default(attributes: dict[str, Any], bins: int) -> None:
    """Of 8 frequencies 5 are distinct; ``onesided`` is 1 where it is left out."""
    signal, step, length = ones(2, 32, 1), np.asarray(4, np.int64), np.asarray(8, np.int64)
    trace = trace_node("STFT", signal, step, None, length, opset=20, **attributes)
    assert trace.operators[0].outputs[0].shape == (2, 7, bins, 2)


# Sequences --------------------------------------------------------------------------------------------------------


def test_sequences_hold_what_they_are_made_of() -> None:
    """Made, grown, read, joined again: no arithmetic, and the shapes go through."""
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["two"]),
        helper.make_node("SequenceInsert", ["two", "x"], ["three"]),
        helper.make_node("SequenceLength", ["three"], ["count"]),
        helper.make_node("SequenceAt", ["three", "first"], ["one"]),
        helper.make_node("MatMul", ["one", "w"], ["y"]),
    ]
    weights = {"first": np.asarray(0), "w": ones(4, 5)}
    model = make_model(nodes, {"x": ones(3, 4)}, weights, ("y", "count"), opset=20)
    trace = BACKEND.trace(model, ModelInputs(ones(3, 4)))
    assert (trace.failure, trace.missing, trace.macs, trace.flops) == (None, (), 60, 120)


def test_a_split_into_a_sequence_has_parts_that_are_counted_or_named() -> None:
    """Four parts of two rows each; joined along the rows again."""
    nodes = [
        helper.make_node("SplitToSequence", ["x", "each"], ["parts"], axis=0),
        helper.make_node("SequenceAt", ["parts", "each"], ["one"]),
        helper.make_node("Relu", ["one"], ["y"]),
    ]
    trace = BACKEND.trace(
        make_model(nodes, {"x": ones(8, 4)}, {"each": np.asarray(2)}, opset=20), ModelInputs(ones(8, 4))
    )
    assert trace.failure is None
    assert trace.flops == 8 or trace.missing == ("Relu of unknown shape (1 call)",)


def test_a_map_over_a_sequence_is_its_body_or_named() -> None:
    body = make_graph([helper.make_node("Relu", ["each"], ["made"])], ["each"], ["made"])
    for value in (body.input[0], body.output[0]):
        value.type.CopyFrom(helper.make_tensor_type_proto(1, None))
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["two"]),
        helper.make_node("SequenceMap", ["two"], ["mapped"], body=body),
        helper.make_node("ConcatFromSequence", ["mapped"], ["y"], axis=0),
    ]
    trace = BACKEND.trace(make_model(nodes, {"x": ones(3, 4)}, opset=20), ModelInputs(ones(3, 4)))
    assert trace.failure is None
    assert trace.flops == 24 or trace.missing, "a silent zero"


def test_a_map_over_a_sequence_that_the_call_gives_is_named() -> None:
    body = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3])],
    )
    nodes = [
        helper.make_node("SequenceMap", ["s"], ["t"], body=body),
        helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    model = make_model(nodes, {})
    model.graph.input.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2, 3]))
    report = profile(model, ModelInputs(s=[np.ones((2, 3), F)] * 2), metrics=["flops", "memory_footprint"])
    assert "SequenceMap (1 call)" in report.status("flops").missing
    assert "an input of unknown size (1 call)" in report.status("memory_footprint").missing
    del model.graph.input[:]
    model.graph.input.add().name = "s"  # nothing is known of it
    unknown = profile(model, ModelInputs(s=[np.ones((2, 3), F)] * 2), metrics=["flops"])
    assert unknown.status("flops").completeness.value == "partial"
