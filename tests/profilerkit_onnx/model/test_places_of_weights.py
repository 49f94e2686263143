"""Weights wherever a file may hold them: in branches, in functions, in ``Constant`` nodes of each kind."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from onnx_graphs import BACKEND, F, make_model

from profilerkit import ModelInputs, ModelTrace, profile

X = np.ones((2, 3), F)
#: Twelve elements.
W = np.ones((3, 4), F)


def count(model: ModelProto, **inputs: Any) -> tuple[int, int]:
    """Return the parameters of a model, and the bytes of all its weights."""
    report = profile(model, ModelInputs(**inputs), metrics=["total_params", "model_size"])
    return report["total_params"], report["model_size"]


def make_branch(name: str) -> GraphProto:
    product = helper.make_node("MatMul", ["x", "w"], [f"y_{name}"])
    result = helper.make_tensor_value_info(f"y_{name}", TensorProto.FLOAT, [2, 4])
    return helper.make_graph([product], name, [], [result], [numpy_helper.from_array(W, "w")])


def test_both_branches_may_have_a_weight_of_one_name() -> None:
    branches = {f"{name}_branch": make_branch(name) for name in ("then", "else")}
    model = make_model([helper.make_node("If", ["c"], ["y"], **branches)], {"x": X, "c": np.asarray(True)})
    assert count(model, x=X, c=np.asarray(True)) == (2 * 12, 2 * 12 * 4)


def make_function_model(nodes: Any, calls: Any, formals: Any = ("a",), weights: Any = None) -> ModelProto:
    function = helper.make_function("mine", "Linear", list(formals), ["b"], nodes, [helper.make_opsetid("", 22)])
    return make_model(calls, {"x": X}, weights, functions=[function])


def test_a_function_may_hold_a_weight_which_all_its_calls_share() -> None:
    body = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(np.ones((3, 3), F))),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
    ]
    calls = [
        helper.make_node("Linear", ["x"], ["h"], domain="mine", name="/first/Linear"),
        helper.make_node("Linear", ["h"], ["y"], domain="mine", name="/second/Linear"),
    ]
    model = make_function_model(body, calls)
    assert count(model, x=X) == (9, 9 * 4)
    trace: ModelTrace = BACKEND.trace(model, ModelInputs(x=X))
    assert {layer.path: len(layer.parameters) for layer in trace.layers} == {"": 0, "first": 1, "second": 1}


def test_a_weight_of_bytes_that_a_function_gets_is_a_parameter() -> None:
    body = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"]), helper.make_node("MatMul", ["a", "f"], ["b"])]
    calls = [helper.make_node("Linear", ["x", "w", "s"], ["y"], domain="mine")]
    weights = {"w": np.ones((3, 4), np.int8), "s": np.asarray(1, F)}
    assert count(make_function_model(body, calls, ["a", "w", "s"], weights), x=X) == (12, 12)


def test_what_a_function_makes_of_a_weight_stands_for_it() -> None:
    body = [helper.make_node("Transpose", ["a"], ["b"])]
    calls = [
        helper.make_node("Linear", ["w"], ["t"], domain="mine"),
        helper.make_node("MatMulInteger", ["q", "t"], ["y"]),
    ]
    function = helper.make_function("mine", "Linear", ["a"], ["b"], body, [helper.make_opsetid("", 22)])
    integers = np.ones((2, 3), np.int8)
    model = make_model(calls, {"q": integers}, {"w": np.ones((4, 3), np.int8)}, functions=[function])
    assert count(model, q=integers) == (12, 12)


def test_functions_that_call_themselves_end() -> None:
    body = [helper.make_node("Linear", ["a"], ["b"], domain="mine")]
    model = make_function_model(body, [helper.make_node("Linear", ["x"], ["y"], domain="mine")])
    assert count(model, x=X) == (0, 0)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"value": numpy_helper.from_array(np.ones(4, F))}, 4 * 4),
        ({"value_floats": [1.0] * 4}, 4 * 4),
        (  # two elements of four bytes at two places of eight
            {
                "sparse_value": helper.make_sparse_tensor(
                    numpy_helper.from_array(np.ones(2, F)), numpy_helper.from_array(np.asarray([0, 3])), [4]
                )
            },
            2 * 4 + 2 * 8,
        ),
    ],
    ids=["tensor", "floats", "sparse"],
)
def test_a_constant_node_of_each_kind_may_be_a_bias(value: dict[str, Any], stored: int) -> None:
    nodes = [helper.make_node("Constant", [], ["b"], **value), helper.make_node("Gemm", ["x", "w", "b"], ["y"])]
    assert count(make_model(nodes, {"x": X}, {"w": W}), x=X) == (12 + 4, 12 * 4 + stored)
