"""Layers in the names of nodes: a second call of a layer, and another layer whose name ends with a number."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import helper
from onnx_graphs import F, make_model

from profilerkit_onnx.model.scopes import find_scopes

MATRIX = np.ones((8, 8), F)


def read(*nodes: tuple[str, str, list[str], str], **weights: Any) -> list[tuple[str, int]]:
    """Return the innermost layer of each node, and which call of it this is."""
    made = [helper.make_node(op, read, [result], name=name) for op, name, read, result in nodes]
    scopes = find_scopes(make_model(made, {"x": (F, [2, 8])}, weights))
    return [(chain[-1].path, chain[-1].call) for chain in scopes.chains]


def test_layers_with_weights_of_their_own_are_two_whatever_the_weights_are_called() -> None:
    """torch renames the weight of a layer without bias, as it turns it round: nothing else tells the two apart."""
    nodes = [
        ("MatMul", "/fc/MatMul", ["x", "onnx::MatMul_7"], "a"),
        ("MatMul", "/fc_1/MatMul", ["a", "onnx::MatMul_8"], "y"),
    ]
    weights = {"onnx::MatMul_7": MATRIX, "onnx::MatMul_8": 2 * MATRIX}
    assert read(*nodes, **weights) == [("fc", 0), ("fc_1", 0)]


def test_a_layer_that_is_called_twice_is_one_also_where_its_weight_has_a_copy() -> None:
    nodes = [
        ("Identity", "Identity_0", ["onnx::MatMul_7"], "copy"),
        ("MatMul", "/fc/MatMul", ["x", "onnx::MatMul_7"], "a"),
        ("MatMul", "/fc_1/MatMul", ["a", "copy"], "b"),
        ("Relu", "/act/Relu", ["b"], "c"),
        ("Relu", "/act_1/Relu", ["c"], "y"),
    ]
    expected = [("", 0), ("fc", 0), ("fc", 1), ("act", 0), ("act", 1)]
    assert read(*nodes, **{"onnx::MatMul_7": MATRIX}) == expected


def test_a_block_and_another_one_with_a_number_are_two_layers() -> None:
    nodes = [
        ("MatMul", "/b/b.0/MatMul", ["x", "w"], "a"),
        ("MatMul", "/b_1/b_1.0/MatMul", ["a", "v"], "c"),
        ("Relu", "/b_1/b_1.1/Relu", ["c"], "y"),
    ]
    assert read(*nodes, w=MATRIX, v=MATRIX) == [("b.0", 0), ("b_1.0", 0), ("b_1.1", 0)]
