"""Zeros among the weights: of files, of weights beside them, in few bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from onnx_graphs import BACKEND, F, make_model

from profilerkit import InputError, WithoutValuesError, profile


def product(weight: np.ndarray[Any, Any]) -> ModelProto:
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (weight.dtype, ["n", len(weight)])})
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def half_zero(rows: int = 200) -> np.ndarray[Any, Any]:
    weight = np.ones((rows, 300), F)
    weight[: rows // 2] = 0
    weight[-1, -1] = -0.0  # a zero as well
    return weight


def test_zeros_of_a_file_and_of_weights_beside_it(tmp_path: Path) -> None:
    model, path = product(half_zero()), tmp_path / "model.onnx"
    assert BACKEND.zero_weights(model) == (30_001, 60_000)
    onnx.save(model, path)
    assert profile(path, metrics=["sparsity"])["sparsity"] == 30_001 / 60_000
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    opened = BACKEND.open_model(path)
    assert BACKEND.zero_weights(opened) == (30_001, 60_000)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(WithoutValuesError, match="is missing in its folder"):
        BACKEND.zero_weights(opened)


def test_zeros_of_half_precision() -> None:
    assert BACKEND.zero_weights(product(half_zero().astype(ml_dtypes.bfloat16))) == (30_001, 60_000)


def test_buffers_and_integers_are_no_weights_of_this() -> None:
    nodes = [
        helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["h"]),
        helper.make_node("Gather", ["h", "i"], ["y"]),
    ]
    ones, zeros = np.ones(3, F), np.zeros(3, F)
    model = make_model(nodes, {"x": np.ones((1, 3, 2), F)}, {"s": ones, "b": zeros, "m": zeros, "v": ones, "i": [0]})
    assert BACKEND.zero_weights(model) == (3, 6)


def test_a_damaged_weight_is_named() -> None:
    model = product(half_zero())
    model.graph.initializer[0].raw_data = b"12345678"
    with pytest.raises(InputError, match="the values of the weight 'w' cannot be read: .*; export the model again"):
        BACKEND.zero_weights(model)
