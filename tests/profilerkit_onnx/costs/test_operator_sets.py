"""The main operators in every operator set from 7 to the newest: other spellings, the same cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import NodeProto, defs, helper
from onnx_graphs import BACKEND, F, make_model

from profilerkit import ModelInputs

OPSETS = range(7, defs.onnx_opset_version() + 1)
X = np.ones((2, 3, 4), F)
IMAGE = np.ones((2, 6, 8, 10), F)
E = 24

Weights = dict[str, Any]
#: Returns the node of an operator as an operator set has it, and its constants.
Spelling = Callable[[int], tuple[NodeProto, Weights]]


def ones(*shape: int) -> Any:
    return np.ones(shape, F)


def plain(op: str, *weights: Any, **attributes: Any) -> Spelling:
    """The same in every operator set."""
    named = {f"w{index}": weight for index, weight in enumerate(weights)}
    return lambda opset: (helper.make_node(op, ["x", *named], ["y"], **attributes), named)


def move_to_input(op: str, since: int, name: str, value: list[int], **further: Any) -> Spelling:
    """An attribute that is an input from an operator set on."""

    def spelling(opset: int) -> tuple[NodeProto, Weights]:
        if opset < since:
            attributes: dict[str, Any] = {name: value, **further}
            return helper.make_node(op, ["x"], ["y"], **attributes), {}
        return helper.make_node(op, ["x", name], ["y"], **further), {name: np.asarray(value, np.int64)}

    return spelling


def clip(opset: int) -> tuple[NodeProto, Weights]:
    if opset < 11:
        return helper.make_node("Clip", ["x"], ["y"], min=0.0, max=6.0), {}
    return helper.make_node("Clip", ["x", "low", "high"], ["y"]), {"low": np.asarray(0, F), "high": np.asarray(6, F)}


def slice_(opset: int) -> tuple[NodeProto, Weights]:
    if opset < 10:
        return helper.make_node("Slice", ["x"], ["y"], starts=[0], ends=[1], axes=[0]), {}
    named = {"starts": np.asarray([0]), "ends": np.asarray([1]), "axes": np.asarray([0])}
    return helper.make_node("Slice", ["x", *named], ["y"]), named


def resize(*factors: float) -> Spelling:
    """Linear resampling by factors: an attribute, then the second input, then the third."""

    def spelling(opset: int) -> tuple[NodeProto, Weights]:
        scales = {"scales": np.asarray(factors, F)}
        if opset < 9:
            return helper.make_node("Upsample", ["x"], ["y"], mode="linear", scales=factors), {}
        if opset < 11:
            op = "Upsample" if opset < 10 else "Resize"
            return helper.make_node(op, ["x", "scales"], ["y"], mode="linear"), scales
        return helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear"), scales

    return spelling


def recurrent(op: str, gates: int) -> Spelling:
    return plain(op, ones(1, gates * 4, 6), ones(1, gates * 4, 4), hidden_size=4)


STEPS = ones(5, 2, 6)
#: By the operator: its spelling, its input, its multiply-accumulates and what there is beside them.
CASES: dict[str, tuple[Spelling, Any, int, int]] = {
    "Add": (plain("Add", X), X, 0, E),
    "AveragePool": (plain("AveragePool", kernel_shape=[3, 3], pads=[1] * 4), IMAGE, 0, 960 * 9),
    "BatchNormalization": (plain("BatchNormalization", *[ones(6)] * 4), IMAGE, 0, 960 * 2),
    "Clip": (clip, X, 0, 2 * E),
    "Conv": (plain("Conv", ones(4, 6, 3, 3), ones(4)), IMAGE, 384 * 54, 384),
    "ConvTranspose": (plain("ConvTranspose", ones(6, 4, 3, 3)), IMAGE, 960 * 36, 0),
    "Dropout": (plain("Dropout"), X, 0, 0),
    "Flatten": (plain("Flatten"), X, 0, 0),
    "Gemm": (plain("Gemm", ones(4, 3), ones(4), transB=1), ones(2, 3), 24, 8),
    "GlobalAveragePool": (plain("GlobalAveragePool"), IMAGE, 0, 960),
    "GRU": (recurrent("GRU", 3), STEPS, 10 * 12 * 10, 10 * 4 * 11),
    "LeakyRelu": (plain("LeakyRelu"), X, 0, 2 * E),
    "LSTM": (recurrent("LSTM", 4), STEPS, 10 * 16 * 10, 10 * 4 * 13),
    "MatMul": (plain("MatMul", ones(4, 5)), X, 6 * 4 * 5, 0),
    "MaxPool": (plain("MaxPool", kernel_shape=[2, 2], strides=[2, 2]), IMAGE, 0, 240 * 4),
    "Mul": (plain("Mul", X), X, 0, E),
    "Pad": (move_to_input("Pad", 11, "pads", [0, 0, 1, 0, 0, 1]), X, 0, 0),
    "ReduceMean": (move_to_input("ReduceMean", 18, "axes", [1]), X, 0, E),
    "ReduceSum": (move_to_input("ReduceSum", 13, "axes", [1]), X, 0, E),
    "Relu": (plain("Relu"), X, 0, E),
    "Resize": (resize(1.0, 1.0, 2.0, 2.0), IMAGE, 0, 4 * 960 * 7),
    "Resize, 10 columns by 1.05": (resize(1.0, 1.0, 1.0, 1.05), IMAGE, 0, 960 * 3),
    "RNN": (recurrent("RNN", 1), STEPS, 10 * 4 * 10, 10 * 4 * 2),
    "Sigmoid": (plain("Sigmoid"), X, 0, E),
    "Slice": (slice_, X, 0, 0),
    "Softmax": (plain("Softmax", axis=2), X, 0, 5 * E),
    "Squeeze": (move_to_input("Squeeze", 13, "axes", [0]), ones(1, 3), 0, 0),
    "Tanh": (plain("Tanh"), X, 0, E),
    "Transpose": (plain("Transpose"), X, 0, 0),
    "Unsqueeze": (move_to_input("Unsqueeze", 13, "axes", [0]), X, 0, 0),
}


@pytest.mark.parametrize("op", CASES)
def test_an_operator_costs_the_same_in_every_operator_set(op: str) -> None:
    spelling, x, macs, further = CASES[op]
    for opset in OPSETS:
        node, weights = spelling(opset)
        trace = BACKEND.trace(make_model([node], {"x": x}, weights, opset=opset), ModelInputs(x))
        counted = (trace.failure, trace.missing, trace.macs, trace.flops)
        assert counted == (None, (), macs, 2 * macs + further), f"operator set {opset}"


def test_the_spellings_are_valid_in_their_operator_sets() -> None:
    """By the definitions of the standard: no attribute that a version lacks, no input too many."""
    for op, (spelling, *_) in CASES.items():
        for opset in OPSETS:
            node, _ = spelling(opset)
            schema = defs.get_schema(node.op_type, opset)
            assert {attribute.name for attribute in node.attribute} <= set(schema.attributes), (op, opset)
            assert schema.min_input <= len(node.input) <= schema.max_input, (op, opset)
