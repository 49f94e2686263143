"""What each ONNX operator costs, by closed forms: the sizes are written out, nothing is taken from the library.

By the convention each elementary function is one operation, and a multiply-accumulate is two.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import TensorProto, defs, helper
from onnx_graphs import BACKEND, F, make_model, trace_node

from profilerkit import ModelInputs
from profilerkit_onnx.costs import is_known

E = 2 * 3 * 4  # the elements of X
X = np.ones((2, 3, 4), F)
IMAGE = np.ones((2, 6, 8, 10), F)  # 960 elements
I8 = np.ones((2, 3, 4), np.int8)


def ones(*shape: int, dtype: Any = F) -> Any:
    return np.ones(shape, dtype)


def ints(*numbers: int) -> Any:
    return np.asarray(numbers, np.int64)


def number(value: float, dtype: Any = F) -> Any:
    return np.asarray(value, dtype)


#: Operator, inputs, attributes, multiply-accumulates, and operations beside them.
CASES: list[tuple[str, list[Any], dict[str, Any], int, int]] = [
    # matrix products
    ("MatMul", [ones(5, 2, 3), ones(5, 3, 4)], {}, 5 * 2 * 3 * 4, 0),
    ("MatMul", [ones(3), ones(3, 4)], {}, 3 * 4, 0),
    ("MatMul", [ones(2, 3), ones(3)], {}, 2 * 3, 0),
    ("Gemm", [ones(2, 3), ones(3, 4)], {}, 2 * 3 * 4, 0),
    ("Gemm", [ones(2, 3), ones(4, 3), ones(4)], {"transB": 1}, 24, 8),
    ("Gemm", [ones(3, 2), ones(3, 4), ones(4)], {"transA": 1, "alpha": 0.5}, 24, 8 + 8),
    ("Gemm", [ones(2, 3), ones(3, 4), ones(4)], {"beta": 0.5}, 24, 8 + 4),
    ("Gemm", [ones(2, 3), ones(3, 4), ones(4)], {"beta": 0.0}, 24, 0),
    ("MatMulInteger", [ones(5, 3, dtype=np.int8), ones(3, 4, dtype=np.int8)], {}, 60, 0),
    ("Einsum", [ones(2, 3, 4), ones(2, 4, 5)], {"equation": "bij,bjk->bik"}, 2 * 3 * 4 * 5, 0),
    ("Einsum", [ones(7, 3, 4), ones(4, 5)], {"equation": "...ij,jk->...ik"}, 7 * 3 * 4 * 5, 0),
    ("Einsum", [ones(2, 3, 4)], {"equation": "bij->b"}, 0, 24),
    ("Einsum", [ones(2), ones(3)], {"equation": "i,j->ij"}, 0, 6),  # products that nobody adds up
    ("Einsum", [ones(2), ones(3)], {"equation": "i,j"}, 0, 6),
    ("Einsum", [ones(2, 3), ones(3, 4)], {"equation": "ij,jk"}, 24, 0),
    ("Einsum", [ones(2, 3, 4)], {"equation": "bij->bji"}, 0, 0),
    # (a @ b) @ c; the second pair of the next sums nothing but is multiplied; four operands, and an ellipsis
    ("Einsum", [ones(2, 3), ones(3, 4), ones(4, 5)], {"equation": "ij,jk,kl->il"}, 2 * 3 * 4 + 2 * 4 * 5, 0),
    ("Einsum", [ones(2, 3), ones(3, 4), ones(2, 4)], {"equation": "ij,jk,ik->ik"}, 2 * 3 * 4, 2 * 4),
    (
        "Einsum",
        [ones(2, 3), ones(3, 4), ones(4, 5), ones(5, 6)],
        {"equation": "ij,jk,kl,lm->im"},
        2 * 3 * 4 + 2 * 4 * 5 + 2 * 5 * 6,
        0,
    ),
    ("Einsum", [ones(7, 2, 3), ones(3, 4), ones(4, 5)], {"equation": "...ij,jk,kl->...il"}, 7 * (24 + 40), 0),
    ("Einsum", [ones(2), ones(3), ones(4)], {"equation": "i,j,k->ijk"}, 0, 2 * 3 + 2 * 3 * 4),
    # the label m, of the last operand alone, is summed first: 4 * 6 additions; then a @ b, and (ab, c) over k
    ("Einsum", [ones(2, 3), ones(3, 4), ones(4, 6)], {"equation": "ij,jk,km->i"}, 2 * 3 * 4 + 2 * 4, 4 * 6),
    # convolutions
    ("Conv", [IMAGE, ones(4, 6, 3, 3)], {}, 2 * 4 * 6 * 8 * (6 * 9), 0),
    ("Conv", [IMAGE, ones(4, 6, 3, 3), ones(4)], {"pads": [1] * 4}, 2 * 4 * 8 * 10 * 54, 2 * 4 * 80),
    ("Conv", [IMAGE, ones(6, 1, 3, 3)], {"group": 6, "strides": [2, 2]}, 2 * 6 * 3 * 4 * 9, 0),
    ("Conv", [IMAGE, ones(4, 3, 3, 3)], {"group": 2, "dilations": [2, 2]}, 2 * 4 * 4 * 6 * 27, 0),
    ("Conv", [ones(2, 5, 9), ones(4, 5, 3)], {}, 2 * 4 * 7 * 15, 0),
    ("ConvTranspose", [IMAGE, ones(6, 4, 3, 3)], {}, 960 * 4 * 9, 0),
    ("ConvTranspose", [IMAGE, ones(6, 2, 2, 2), ones(4)], {"group": 2, "strides": [2, 2]}, 960 * 8, 2 * 4 * 16 * 20),
    ("ConvInteger", [ones(1, 6, 8, 8, dtype=np.uint8), ones(4, 6, 3, 3, dtype=np.uint8)], {}, 4 * 36 * 54, 0),
    (
        "DeformConv",  # each sample lies between four neighbours: four products and three additions, and a mask
        [ones(1, 2, 4, 4), ones(3, 2, 3, 3), ones(1, 18, 2, 2), ones(3), ones(1, 9, 2, 2)],
        {},
        3 * 4 * 18,
        3 * 4 + 4 * 18 * (7 + 1),
    ),
    # recurrent layers: steps 5, samples 2, features 3, units 4
    ("LSTM", [ones(5, 2, 3), ones(1, 16, 3), ones(1, 16, 4)], {"hidden_size": 4}, 10 * 16 * 7, 10 * 4 * 13),
    (
        "LSTM",
        [ones(5, 2, 3), ones(2, 16, 3), ones(2, 16, 4), ones(2, 32)],
        {"hidden_size": 4, "direction": "bidirectional"},
        10 * 2 * 16 * 7,
        10 * 2 * (32 + 4 * 13),
    ),
    (
        "LSTM",  # peepholes: a product and an addition for three gates
        [ones(5, 2, 3), ones(1, 16, 3), ones(1, 16, 4), None, None, None, None, ones(1, 12)],
        {"hidden_size": 4},
        10 * 16 * 7,
        10 * (4 * 13 + 12 * 2),
    ),
    ("GRU", [ones(5, 2, 3), ones(1, 12, 3), ones(1, 12, 4)], {"hidden_size": 4}, 10 * 12 * 7, 10 * 4 * 11),
    # With a clip two comparisons for each argument of an activation.
    ("LSTM", [ones(5, 2, 3), ones(1, 16, 3), ones(1, 16, 4)], {"hidden_size": 4, "clip": 3.0}, 1120, 40 * (13 + 5 * 2)),
    ("GRU", [ones(5, 2, 3), ones(1, 12, 3), ones(1, 12, 4)], {"hidden_size": 4, "clip": 3.0}, 840, 40 * (11 + 3 * 2)),
    ("RNN", [ones(5, 2, 3), ones(1, 4, 3), ones(1, 4, 4)], {"hidden_size": 4, "clip": 3.0}, 280, 40 * (2 + 2)),
    ("RNN", [ones(5, 2, 3), ones(1, 4, 3), ones(1, 4, 4)], {"hidden_size": 4}, 10 * 4 * 7, 10 * 4 * 2),
    # attention: 2 samples, 3 heads, 4 queries, 5 keys, widths 6 and 7: 120 scores, scaled, softmax of five
    ("Attention", [ones(2, 3, 4, 6), ones(2, 3, 5, 6), ones(2, 3, 5, 7)], {}, 120 * 13, 120 * 6),
    ("Attention", [ones(2, 3, 4, 6), ones(2, 3, 5, 6), ones(2, 3, 5, 7), ones(4, 5)], {}, 120 * 13, 120 * 7),
    ("Attention", [ones(2, 3, 4, 6), ones(2, 3, 5, 6), ones(2, 3, 5, 7), ones(4, 5) > 0], {}, 120 * 13, 120 * 6),
    (
        "Attention",
        [ones(2, 4, 18), ones(2, 5, 18), ones(2, 5, 21)],
        {"q_num_heads": 3, "kv_num_heads": 3, "softcap": 2.0},
        120 * 13,
        120 * 9,
    ),
    # normalization
    ("BatchNormalization", [IMAGE, *[ones(6)] * 4], {}, 0, 960 * 2),
    ("LayerNormalization", [X, ones(4), ones(4)], {}, 0, E * 7),
    ("LayerNormalization", [X, ones(4)], {}, 0, E * 6),
    ("InstanceNormalization", [IMAGE, ones(6), ones(6)], {}, 0, 960 * 7),
    ("GroupNormalization", [IMAGE, ones(6), ones(6)], {"num_groups": 2}, 0, 960 * 7),
    ("MeanVarianceNormalization", [IMAGE], {}, 0, 960 * 5),
    ("RMSNormalization", [X, ones(4)], {}, 0, E * 4 + 6 * 2),
    ("LRN", [IMAGE], {"size": 5}, 0, 960 * (5 + 5)),
    ("LpNormalization", [X], {}, 0, E * 3),
    # activations
    ("Relu", [X], {}, 0, E),
    ("ThresholdedRelu", [X], {}, 0, E),
    ("Sigmoid", [X], {}, 0, E),
    ("Tanh", [X], {}, 0, E),
    ("LeakyRelu", [X], {}, 0, 2 * E),
    ("PRelu", [X, ones(4)], {}, 0, 2 * E),
    ("Elu", [X], {}, 0, 4 * E),
    ("Selu", [X], {}, 0, 4 * E),
    ("Celu", [X], {}, 0, 4 * E),
    ("Softplus", [X], {}, 0, 3 * E),
    ("Softsign", [X], {}, 0, 3 * E),
    ("HardSigmoid", [X], {}, 0, 4 * E),
    ("HardSwish", [X], {}, 0, 5 * E),
    ("Mish", [X], {}, 0, 5 * E),
    ("Gelu", [X], {}, 0, 5 * E),
    ("Gelu", [X], {"approximate": "tanh"}, 0, 8 * E),
    ("Softmax", [X], {}, 0, 5 * E),
    ("LogSoftmax", [X], {}, 0, 5 * E),
    ("Clip", [X, number(0), number(6)], {}, 0, 2 * E),
    ("Clip", [X, number(0)], {}, 0, E),
    ("Shrink", [X], {"bias": 0.5}, 0, 2 * E),
    ("Shrink", [X], {"bias": 0.0}, 0, E),
    ("Dropout", [X], {}, 0, 0),
    ("Hardmax", [X], {}, 0, 0),
    # element by element
    ("Add", [X, ones(3, 1)], {}, 0, E),
    ("Sub", [X, ones(4)], {}, 0, E),
    ("Mul", [X, X], {}, 0, E),
    ("Div", [X, X], {}, 0, E),
    ("Add", [I8, I8], {}, 0, 0),
    ("Mul", [X, number(1.0)], {}, 0, E),  # a number that is an input may be any
    ("Pow", [X, number(2.0)], {}, 0, E),
    *((op, [X], {}, 0, E) for op in ("Abs", "Neg", "Sign", "Reciprocal", "Sqrt", "Exp", "Log", "Erf", "Cos", "Sin")),
    *((op, [X], {}, 0, E) for op in ("Ceil", "Floor", "Round", "Tan", "Acos", "Asinh", "Atan", "Cosh")),
    ("Mod", [X, X], {"fmod": 1}, 0, E),
    ("Sum", [X, X, X], {}, 0, 2 * E),
    ("Mean", [X, X, X], {}, 0, 2 * E),
    ("Max", [X, X, X], {}, 0, 2 * E),
    ("Min", [X, X], {}, 0, E),
    # reductions, of each input element
    *((op, [X], {}, 0, E) for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")),
    *((op, [X], {}, 0, 2 * E) for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare")),
    ("ReduceLogSumExp", [X], {}, 0, 4 * E),
    ("CumSum", [X, number(1, np.int64)], {}, 0, E),
    # pooling and resampling
    ("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2]}, 0, 2 * 6 * 4 * 5 * 4),
    ("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [1] * 4}, 0, 960 * 9),
    ("LpPool", [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2]}, 0, 2 * 6 * 4 * 5 * 4 * 2),
    ("GlobalAveragePool", [IMAGE], {}, 0, 960),
    ("GlobalMaxPool", [IMAGE], {}, 0, 960),
    ("GlobalLpPool", [IMAGE], {}, 0, 2 * 960),
    ("Resize", [IMAGE, None, None, ints(2, 6, 16, 20)], {"mode": "nearest"}, 0, 0),
    ("Resize", [IMAGE, None, None, ints(2, 6, 16, 20)], {"mode": "linear"}, 0, 4 * 960 * (4 + 3)),
    ("Resize", [IMAGE, None, None, ints(2, 6, 8, 20)], {"mode": "cubic"}, 0, 2 * 960 * (4 + 3)),
    ("AffineGrid", [ones(2, 2, 3), ints(2, 3, 5, 7)], {}, 2 * 5 * 7 * 2 * 3, 0),
    ("GridSample", [IMAGE, ones(2, 3, 5, 2)], {}, 0, 2 * 6 * 15 * (4 + 3)),
    (
        "RoiAlign",
        [IMAGE, ones(4, 4), ints(0, 0, 1, 1)],
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2},
        0,
        4 * 6 * 6 * 4 * 8,
    ),
    ("NonMaxSuppression", [ones(1, 5, 4), ones(1, 2, 5)], {}, 0, 2 * (10 * 12 + 5 * 3)),
    ("Col2Im", [ones(1, 8, 9), ints(4, 4), ints(2, 2)], {}, 0, 72),
    # Fourier transforms, decompositions, losses, quantization, scattering
    ("DFT", [ones(2, 8, 1)], {}, 0, round(2.5 * 16 * 3)),
    ("DFT", [ones(2, 8, 2)], {}, 0, 5 * 16 * 3),
    ("Det", [ones(3, 6, 6)], {}, 0, 3 * round(2 * 6**3 / 3)),
    ("SoftmaxCrossEntropyLoss", [ones(6, 5), ints(0, 1, 2, 3, 4, 0)], {}, 0, 30 * 5 + 6),
    ("NegativeLogLikelihoodLoss", [ones(6, 5), ints(0, 1, 2, 3, 4, 0)], {}, 0, 6),
    ("QuantizeLinear", [X, number(0.1), number(0, np.uint8)], {}, 0, 4 * E),
    ("DynamicQuantizeLinear", [X], {"_outputs": 3}, 0, 6 * E),
    ("ScatterElements", [ones(3, 3), np.zeros((2, 3), np.int64), ones(2, 3)], {}, 0, 0),
    ("ScatterElements", [ones(3, 3), np.zeros((2, 3), np.int64), ones(2, 3)], {"reduction": "add"}, 0, 6),
    # what moves, makes, chooses or compares
    ("Transpose", [X], {}, 0, 0),
    ("Concat", [X, X], {"axis": 0}, 0, 0),
    ("Cast", [X], {"to": 10}, 0, 0),
    ("Greater", [X, X], {}, 0, 0),
    ("Gather", [X, ints(0)], {}, 0, 0),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{index}-{case[0]}" for index, case in enumerate(CASES)])
def test_an_operator_costs_its_closed_form(case: tuple[str, list[Any], dict[str, Any], int, int]) -> None:
    op, inputs, attributes, macs, further = case
    outputs = attributes.get("_outputs", 1)
    attributes = {name: value for name, value in attributes.items() if name != "_outputs"}
    opset = 20 if op in ("Gelu", "DFT") else 23
    trace = trace_node(op, *inputs, outputs=outputs, opset=opset, **attributes)
    assert trace.missing == ()
    assert (trace.macs, trace.flops) == (macs, 2 * macs + further)


@pytest.mark.parametrize(("opset", "length"), [(17, 8), (20, 4)])
def test_an_attribute_that_is_left_out_has_the_default_of_the_operator_set(opset: int, length: int) -> None:
    """A transform is along axis 1 before operator set 20, and along the last but one since."""
    trace = trace_node("DFT", ones(2, 8, 4, 2), opset=opset)
    assert (trace.flops, trace.missing) == (5 * 2 * 8 * 4 * math.log2(length), ())


def test_at_least_sixty_operators_have_a_closed_form() -> None:
    assert len({case[0] for case in CASES}) >= 60


MICROSOFT: list[tuple[str, list[Any], dict[str, Any], int, int]] = [
    ("FusedMatMul", [ones(2, 3), ones(4, 3)], {"transB": 1, "alpha": 0.5}, 24, 8),
    ("Gelu", [X], {}, 0, 5 * E),
    ("FastGelu", [X, ones(4)], {}, 0, 9 * E),
    ("BiasGelu", [X, ones(4)], {}, 0, 6 * E),
    ("QuickGelu", [X], {}, 0, 3 * E),
    ("SkipLayerNormalization", [X, X, ones(4), ones(4), ones(4)], {}, 0, (2 + 7) * E),
    ("SkipSimplifiedLayerNormalization", [X, X, ones(4)], {}, 0, (1 + 4) * E + 6 * 2),
    (
        "MatMulNBits",
        [ones(2, 32), ones(16, 1, 16, dtype=np.uint8), ones(16)],
        {"K": 32, "N": 16, "bits": 4, "block_size": 32},
        2 * 32 * 16,
        0,
    ),
    (
        "Attention",  # a product for all projections, then 2 samples, 4 heads, 5 x 5 scores, widths of 3
        [ones(2, 5, 12), ones(12, 36), ones(36)],
        {"num_heads": 4},
        10 * 12 * 36 + 200 * 6,
        10 * 36 + 200 * 6,
    ),
    ("MultiHeadAttention", [ones(2, 5, 12), ones(2, 7, 12), ones(2, 7, 12)], {"num_heads": 4}, 280 * 6, 280 * 6),
    ("FusedConv", [IMAGE, ones(4, 6, 3, 3), ones(4)], {"activation": "Relu"}, 384 * 54, 2 * 384),
]


@pytest.mark.parametrize("case", MICROSOFT, ids=[case[0] for case in MICROSOFT])
def test_an_operator_of_onnxruntime_costs_its_closed_form(
    case: tuple[str, list[Any], dict[str, Any], int, int],
) -> None:
    """No definition of these is installed with onnx: shapes come from what the file declares."""
    op, inputs, attributes, macs, further = case
    shapes = {"FusedMatMul": (2, 4), "MatMulNBits": (2, 16), "FusedConv": (2, 4, 6, 8), "Attention": (2, 5, 12)}
    shape = shapes.get(op, inputs[0].shape)
    trace = trace_node(op, *inputs, domain="com.microsoft", declared=shape, **attributes)
    assert trace.missing == ()
    assert (trace.macs, trace.flops) == (macs, 2 * macs + further)


#: Operators of the standard that have no formula here, none in their definition, and are named where they come.
UNKNOWN = {"MaxRoiPool", "MelWeightMatrix", "TfIdfVectorizer"}
#: Operators with graphs inside, which the walk goes over.
WITH_GRAPHS = {"If", "Loop", "Scan"}


def test_every_operator_of_the_standard_is_counted_free_or_named() -> None:
    newest: dict[str, Any] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version > getattr(newest.get(schema.name), "since_version", 0):
            newest[schema.name] = schema
    defined = {name for name, schema in newest.items() if schema.has_function or schema.has_context_dependent_function}
    known = {name for name in newest if is_known(name)}
    assert newest.keys() - known - defined - WITH_GRAPHS == UNKNOWN
    assert len(known) > 150


#: A part of an image by its starts and ends, and the work of each of the 960 elements that are made of it.
CROPS: dict[str, tuple[list[float], list[int] | None, int]] = {
    "all of it": ([0, 0, 0, 0, 1, 1, 1, 1], None, 0),
    "half of the rows": ([0, 0, 0.25, 0, 1, 1, 0.75, 1], None, 2 + 1),
    "half of both": ([0, 0, 0.25, 0.5, 1, 1, 0.75, 1], None, 4 + 3),
    "half of the columns, named alone": ([0.5, 1], [-1], 2 + 1),
}


def test_a_factor_that_changes_no_size_moves_elements() -> None:
    """The 10 columns stay 10 for a factor of 1.05: each element is made of 2."""
    node = helper.make_node("Resize", ["x", "", "factors"], ["y"], mode="linear")
    model = make_model([node], {"x": IMAGE}, {"factors": np.array([1, 1, 1, 1.05], F)})
    assert BACKEND.trace(model, ModelInputs(IMAGE)).flops == 960 * (2 + 1)


@pytest.mark.parametrize(("mode", "missing"), [("linear", ("Resize (1 call)",)), ("nearest", ())])
def test_unknown_factors_that_change_no_size_are_not_taken_for_1(mode: str, missing: tuple[str, ...]) -> None:
    node = helper.make_node("Resize", ["x", "", "factors"], ["y"], mode=mode)
    factors = np.array([1, 1, 1, 1.05], F)
    model = make_model([node], {"x": IMAGE, "factors": factors})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, IMAGE.shape))
    trace = BACKEND.trace(model, ModelInputs(IMAGE, factors))
    assert (trace.flops, trace.missing) == (0, missing)


@pytest.mark.parametrize("case", CROPS)
def test_a_part_of_an_image_is_resized_also_to_the_size_of_all_of_it(case: str) -> None:
    roi, axes, flops = CROPS[case]
    named: dict[str, Any] = {} if axes is None else {"axes": axes}
    sizes = np.array(IMAGE.shape if axes is None else [IMAGE.shape[-1]])
    node = helper.make_node(
        "Resize",
        ["x", "roi", "", "n"],
        ["y"],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        **named,
    )
    model = make_model([node], {"x": IMAGE}, {"roi": np.array(roi, F), "n": sizes})
    assert BACKEND.trace(model, ModelInputs(IMAGE)).flops == 960 * flops
    unknown = make_model([node], {"x": IMAGE, "roi": np.array(roi, F)}, {"n": sizes})
    assert BACKEND.trace(unknown, ModelInputs(IMAGE, np.array(roi, F))).missing == ("Resize (1 call)",)


#: The functions of each element that a reduction over no dimension is, and one over all of them.
STEPS = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), (0, 1)),
    "ReduceL1": (1, 2),
    "ReduceL2": (2, 2),
    "ReduceSumSquare": (1, 2),  # absolute; square, root; square
    "ReduceLogSum": (1, 1),
    "ReduceLogSumExp": (2, 4),  # logarithm; exponential, logarithm
}


@pytest.mark.parametrize("op", STEPS)
@pytest.mark.parametrize("axes", [[], [np.zeros(0, np.int64)]], ids=["left out", "none"])
def test_a_reduction_over_no_dimension_adds_nothing_up(op: str, axes: list[Any]) -> None:
    x, (over_none, over_all) = np.ones((2, 3, 4), np.float32), STEPS[op]
    assert trace_node(op, x, *axes, noop_with_empty_axes=1).flops == 24 * over_none
    assert trace_node(op, x, *axes, noop_with_empty_axes=0).flops == 24 * over_all
