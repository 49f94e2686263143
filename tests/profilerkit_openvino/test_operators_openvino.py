"""Costs of OpenVINO's operators: values by hand, and no operator of its sets is a silent zero."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openvino")
import numpy as np
import openvino
from openvino import opset16 as ops

from profilerkit import profile
from profilerkit_openvino.costs import OPERATORS

#: What the backend reports as not counted, of which no formula is known: postprocessing of detectors, decoders, color.
PARTIAL = """
    BGRtoNV12 CTCGreedyDecoder CTCGreedyDecoderSeqLen CTCLoss DeformablePSROIPooling DetectionOutput
    ExperimentalDetectronDetectionOutput ExperimentalDetectronGenerateProposalsSingleImage
    ExperimentalDetectronPriorGridGenerator ExperimentalDetectronROIFeatureExtractor ExperimentalDetectronTopKROIs
    FakeConvert GenerateProposals GroupedMatMul I420toBGR I420toRGB ISTFT MatrixNms MulticlassNms NMSRotated NV12toBGR
    NV12toRGB PSROIPooling PriorBox PriorBoxClustered Proposal RGBtoNV12 ROIAlignRotated ROIPooling RegionYolo STFT
"""
#: What has graphs inside, which are gone over.
CONTROL_FLOW = {"If", "Loop", "TensorIterator"}


def list_operators() -> set[str]:
    """Return the operators of all sets that the installed OpenVINO has, from its headers."""
    headers = Path(str(openvino.__file__)).parent / "include" / "openvino" / "opsets"
    tables = [path.read_text() for path in headers.glob("opset*_tbl.hpp")]
    assert len(tables) >= 16
    return {name for table in tables for name in re.findall(r"^_OPENVINO_OP_REG\((\w+), ", table, re.MULTILINE)}


def test_every_operator_is_priced_or_free_or_named_as_not_counted() -> None:
    operators = list_operators()
    assert len(operators) > 200
    known = {name for name in operators if OPERATORS.is_known(name)}
    assert operators - known - CONTROL_FLOW == operators.intersection(PARTIAL.split())  # an older release has fewer


def x(*shape: int, dtype: Any = np.float32) -> Any:
    return ops.parameter(list(shape), dtype)


def numbers(*values: int) -> Any:
    return ops.constant(np.array(values, np.int64))


def weight(*shape: int) -> Any:
    return ops.constant(np.ones(shape, np.float32))


def lstm(bias: float) -> Any:
    states = [ops.constant(np.zeros((2, 1, 5), np.float32)) for _ in range(2)]
    lengths = ops.constant(np.array([3, 3], np.int32))
    parts = weight(1, 20, 4), weight(1, 20, 5), ops.constant(np.full((1, 20), bias, np.float32))
    return ops.lstm_sequence(x(2, 3, 4), *states, lengths, *parts, 5, "forward").output(0)


def gru(lengths: Any, clip: float = 0.0) -> Any:
    parts = weight(1, 15, 4), weight(1, 15, 5), weight(1, 20)
    states = ops.constant(np.zeros((2, 1, 5), np.float32))
    return ops.gru_sequence(
        x(2, 3, 4), states, lengths, *parts, 5, "forward", ["sigmoid", "tanh"], [], [], clip, True
    ).output(0)


#: An operator, and its MACs and further FLOPs by hand.
CASES: dict[str, tuple[Callable[[], Any], int, int]] = {
    "add": (lambda: ops.add(x(2, 3), x(2, 3)), 0, 6),
    "add of zero": (lambda: ops.add(x(2, 3), ops.constant(np.float32(0))), 0, 0),
    "multiply by one": (lambda: ops.multiply(x(2, 3), ops.constant(np.float32(1))), 0, 0),
    "integers": (lambda: ops.add(x(2, 3, dtype=np.int32), x(2, 3, dtype=np.int32)), 0, 0),
    "relu": (lambda: ops.relu(x(2, 3)), 0, 6),
    "clamp": (lambda: ops.clamp(x(2, 3), 0.0, 6.0), 0, 12),
    "softmax": (lambda: ops.softmax(x(2, 3), 1), 0, 6 * 5),
    "swish": (lambda: ops.swish(x(2, 3)), 0, 6 * 2),
    "swish with beta": (lambda: ops.swish(x(2, 3), ops.constant(np.float32(2))), 0, 6 * 3),
    "gelu by erf": (lambda: ops.gelu(x(2, 3), "erf"), 0, 6 * 5),
    "gelu by tanh": (lambda: ops.gelu(x(2, 3), "tanh"), 0, 6 * (2 + 1 + 1 + 4)),
    "mean": (lambda: ops.reduce_mean(x(2, 3), numbers(1)), 0, 6),
    "l1": (lambda: ops.reduce_l1(x(2, 3), numbers(1)), 0, 12),
    "mvn": (lambda: ops.mvn(x(2, 3), numbers(1), True, 1e-5, "inside_sqrt"), 0, 6 * 5),
    "mvn of the mean": (lambda: ops.mvn(x(2, 3), numbers(1), False, 1e-5, "inside_sqrt"), 0, 6 * 2),
    "normalize l2": (lambda: ops.normalize_l2(x(2, 3), numbers(1), 1e-5, "add"), 0, 6 * 3),
    "lrn": (lambda: ops.lrn(x(1, 4, 2, 2), numbers(1), size=5), 0, 16 * (1 + 5 + 1 + 1 + 1 + 1)),
    # 2 x 8 x 8 outputs for each of 2 samples, each of 3 * 3 * 3
    "convolution": (
        lambda: ops.convolution(x(2, 3, 8, 8), weight(2, 3, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1]),
        2 * 2 * 64 * 27,
        0,
    ),
    # 4 channels in 2 groups of 2: each output element of 2 * 3 * 3
    "groups": (
        lambda: ops.group_convolution(x(1, 4, 8, 8), weight(2, 3, 2, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1]),
        6 * 64 * 18,
        0,
    ),
    # each of 3 * 4 * 4 input elements meets a filter of 5 * 2 * 2
    "transposed": (
        lambda: ops.convolution_backprop_data(x(1, 3, 4, 4), weight(3, 5, 2, 2), [2, 2]),
        3 * 16 * 20,
        0,
    ),
    "transposed groups": (
        lambda: ops.group_convolution_backprop_data(x(1, 4, 4, 4), weight(2, 2, 3, 2, 2), [2, 2]),
        4 * 16 * 12,
        0,
    ),
    "matmul": (lambda: ops.matmul(x(2, 3, 4), weight(4, 5), False, False), 2 * 3 * 5 * 4, 0),
    "matmul transposed": (lambda: ops.matmul(x(4, 3), weight(5, 4), True, True), 3 * 5 * 4, 0),
    "integer matmul": (lambda: ops.matmul(x(2, 3, dtype=np.int32), x(3, 4, dtype=np.int32), False, False), 24, 0),
    "einsum": (lambda: ops.einsum([x(2, 3), x(3, 4)], "ij,jk->ik"), 24, 0),
    "einsum without an arrow": (lambda: ops.einsum([x(2, 3), x(3, 4)], "ij,jk"), 24, 0),
    "einsum with an ellipsis": (lambda: ops.einsum([x(5, 2, 3), x(3, 4)], "...j,jk->...k"), 5 * 24, 0),
    # 2 * 4 heads of 6 x 6 scores, of width 8: twice, a scale and five for a softmax
    "attention": (
        lambda: ops.scaled_dot_product_attention(x(2, 4, 6, 8), x(2, 4, 6, 8), x(2, 4, 6, 8)),
        2 * 4 * 36 * 16,
        2 * 4 * 36 * 6,
    ),
    "masked attention": (
        lambda: ops.scaled_dot_product_attention(x(2, 4, 6, 8), x(2, 4, 6, 8), x(2, 4, 6, 8), x(6, 6)),
        2 * 4 * 36 * 16,
        2 * 4 * 36 * 7,
    ),
    # 2 samples of 3 steps, 4 gates of 5 units: 4 + 5 products each, 13 operations for each unit
    "lstm without bias": (lambda: lstm(0.0), 6 * 20 * 9, 6 * 5 * 13),
    "lstm": (lambda: lstm(1.0), 6 * 20 * 9, 6 * (5 * 13 + 20)),
    # 3 gates, 11 operations, and four biases for each unit; one sequence of 2 steps in place of 3
    "gru": (lambda: gru(ops.constant(np.array([3, 2], np.int32))), 5 * 15 * 9, 5 * (5 * 11 + 20)),
    "gru that clips": (
        lambda: gru(ops.constant(np.array([3, 2], np.int32)), 3.0),
        5 * 15 * 9,
        5 * (5 * (11 + 3 * 2) + 20),
    ),
    "max pool": (
        lambda: ops.max_pool(x(1, 2, 4, 4), [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0),
        0,
        2 * 4 * 4,
    ),
    "adaptive pool": (lambda: ops.adaptive_avg_pool(x(1, 2, 5), numbers(2)), 0, 2 * 6),  # windows of 3 and 3
    "non-maximum suppression": (
        lambda: ops.non_max_suppression(x(1, 4, 4), x(1, 2, 4), numbers(3)).output(2),
        0,
        2 * (6 * 12 + 4 * 3),  # of 2 classes: 6 pairs, 4 boxes
    ),
    "scatter": (
        lambda: ops.scatter_elements_update(x(3), numbers(0, 1), weight(2), ops.constant(0), "sum"),
        0,
        2,
    ),
    "scatter that replaces": (
        lambda: ops.scatter_elements_update(x(3), numbers(0, 1), weight(2), ops.constant(0)),
        0,
        0,
    ),
    "embedding bag": (
        lambda: ops.embedding_bag_packed_sum(weight(7, 4), x(2, 3, dtype=np.int64)),
        0,
        6 * 4,
    ),
    "fourier": (lambda: ops.dft(x(2, 8, 2), numbers(1)), 0, 5 * 16 * 3),
    "fourier of reals": (lambda: ops.rdft(x(2, 8), numbers(1)), 0, 5 * 16 * 3 // 2),
    "fourier to reals": (lambda: ops.irdft(x(2, 5, 2), numbers(1)), 0, 5 * 16 * 3 // 2),
    # of 16 points, whatever the tensor has: 2 * 16 points of 4 doublings
    "fourier of a length": (lambda: ops.dft(x(2, 8, 2), numbers(1), numbers(16)), 0, 5 * 2 * 16 * 4),
    "fourier of reals, of a length": (lambda: ops.rdft(x(2, 8), numbers(1), numbers(16)), 0, 5 * 2 * 16 * 4 // 2),
    "fourier of reals, as it is": (lambda: ops.rdft(x(2, 8), numbers(-1), numbers(-1)), 0, 5 * 16 * 3 // 2),
    "transpose": (lambda: ops.transpose(x(2, 3), numbers(1, 0)), 0, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_costs_what_it_does(name: str) -> None:
    make, macs, further = CASES[name]
    made = make()
    nodes = openvino.Model([made], _parameters(made), "one")
    report = profile(nodes, metrics=["macs", "flops"])
    assert [report.status(key).completeness.value for key in ("macs", "flops")] == ["complete"] * 2
    assert (report["macs"], report["flops"]) == (macs, 2 * macs + further)


def _parameters(made: Any) -> list[Any]:
    """Return the parameters that something depends on, in the order in which they are found."""
    found: dict[str, Any] = {}
    open_nodes = [made.get_node() if hasattr(made, "get_node") else made]
    while open_nodes:
        node = open_nodes.pop()
        if node.get_type_name() == "Parameter":
            found.setdefault(node.get_name(), node)
        open_nodes += [value.get_node() for value in node.input_values()]
    return list(found.values())


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (lambda: ops.ctc_greedy_decoder(x(4, 2, 5), x(4, 2), True), "CTCGreedyDecoder (1 call)"),
        (
            lambda: ops.interpolate(x(1, 1, 4, 4), numbers(8, 8), "cubic", "sizes", antialias=True, axes=numbers(2, 3)),
            "I",
        ),
        (
            lambda: ops.relu(ops.gather_nd(x(3, 4), ops.transpose(ops.non_zero(x(3, 4)), numbers(1, 0)))),
            "Relu of unknown",
        ),
    ],
)
def test_what_is_not_known_is_named(make: Callable[[], Any], missing: str) -> None:
    made = make()
    report = profile(openvino.Model([made], _parameters(made), "one"), metrics=["flops"])
    assert report.status("flops").completeness.value == "partial"
    assert report.status("flops").missing[0].startswith(missing)


@pytest.mark.parametrize(
    ("further", "options", "sign"),
    [
        ((), {}, ""),
        ((), {"causal": True}, "\u2264 "),
        (((6, 6),), {}, "\u2264 "),
        (((),), {}, ""),
    ],
)
def test_a_mask_makes_attended_macs_an_upper_bound(further: Any, options: dict[str, Any], sign: str) -> None:
    """Eight heads, 6 x 6 scores of 8 and 8 MACs, in full; one number in the place of a mask takes nothing away."""
    made = ops.scaled_dot_product_attention(*(x(2, 4, 6, 8) for _ in range(3)), *(x(*m) for m in further), **options)
    model = openvino.Model([made], _parameters(made), "attention")
    status = profile(model, metrics=["attended_macs"]).status("attended_macs")
    assert (status.value, status.sign) == (8 * 36 * 16, sign)


def test_lengths_that_depend_on_values_are_an_upper_bound() -> None:
    made = gru(x(2, dtype=np.int32))
    report = profile(openvino.Model([made], _parameters(made), "one"), metrics=["macs"])
    assert report["macs"] == 6 * 15 * 9  # all three steps of both
    assert report.status("macs").completeness.value != "complete"
