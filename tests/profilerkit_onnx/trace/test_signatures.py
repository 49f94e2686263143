"""Nodes that are alike are inferred and priced once; what differs between two of them still tells them apart."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import NodeProto, TensorProto, helper
from onnx_graphs import BACKEND, F, make_model

from profilerkit import ModelInputs, ModelTrace
from profilerkit_onnx.trace import pricing, walk

X = np.ones((2, 6), F)


def trace_nodes(
    nodes: list[NodeProto], weights: dict[str, Any] | None = None, declared: dict[str, Any] | None = None
) -> ModelTrace:
    model = make_model(nodes, {"x": X}, weights, outputs=["y", "z"])
    for name, dims in (declared or {}).items():
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.INT64, dims))
    trace = BACKEND.trace(model, ModelInputs(X))
    assert trace.failure is None
    return trace


def shapes(trace: ModelTrace) -> list[tuple[int, ...]]:
    return [tuple(record.outputs[0].shape) for record in trace.operators]


def test_a_layer_that_comes_again_is_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[str] = []
    price = pricing.price

    def noted(operator: str, *rest: Any) -> Any:
        priced.append(operator)
        return price(operator, *rest)

    monkeypatch.setattr(walk, "price", noted)
    names = ["x", *(f"h{index}" for index in range(9)), "y"]
    nodes = []
    for before, after in pairwise(names):
        nodes += [
            helper.make_node("MatMul", [before, "w"], [f"{after}m"]),
            helper.make_node("Relu", [f"{after}m"], [after]),
        ]
    trace = trace_nodes([*nodes, helper.make_node("Relu", ["x"], ["z"])], {"w": np.ones((6, 6), F)})
    assert trace.macs == 10 * 2 * 6 * 6
    assert len(trace.operators) == 21
    assert sorted(priced) == ["MatMul", "Relu"]


def test_the_elements_of_constants_tell_nodes_apart() -> None:
    nodes = [helper.make_node("Reshape", ["x", "a"], ["y"]), helper.make_node("Reshape", ["x", "b"], ["z"])]
    assert shapes(trace_nodes(nodes, {"a": np.array([3, 4]), "b": np.array([4, 3])})) == [(3, 4), (4, 3)]


def test_attributes_tell_nodes_apart() -> None:
    nodes = [helper.make_node("Flatten", ["x"], [name], axis=axis) for name, axis in (("y", 0), ("z", 2))]
    assert shapes(trace_nodes(nodes)) == [(1, 12), (12, 1)]


def test_what_the_file_declares_of_a_value_is_its_own() -> None:
    """How many elements are not zero is not known; the file declares it for each of the two results."""
    nodes = [helper.make_node("NonZero", ["x"], [name]) for name in ("a", "b")]
    nodes += [helper.make_node("Identity", [name], [out]) for name, out in (("a", "y"), ("b", "z"))]
    trace = trace_nodes(nodes, declared={"a": [2, 5], "b": [2, 7]})
    assert shapes(trace) == [(2, 5), (2, 7), (2, 5), (2, 7)]


def test_a_constant_is_told_from_an_activation_of_its_shape() -> None:
    """The constant is too large to be read; what is made of it alone is computed before the first run."""
    wide = np.ones((2, 6), F).repeat(1000, 0)
    nodes = [
        helper.make_node("Relu", ["c"], ["folded"]),
        helper.make_node("Expand", ["x", "shape"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
        helper.make_node("Identity", ["folded"], ["z"]),
    ]
    tiles = np.array([1000, 1, 6])
    model = make_model(nodes, {"x": X[:1]}, {"c": wide.reshape(1000, 2, 6)[:, :1], "shape": tiles}, outputs=["y", "z"])
    trace = BACKEND.trace(model, ModelInputs(X[:1]))
    assert [record.operator for record in trace.operators] == ["Expand", "Relu"]
    assert trace.flops == 6000
