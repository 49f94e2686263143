"""The batch of recurrent operators, whose inputs have time first; that of all others is the first dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from profilerkit import InputError, profile

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(kind: str, layout: int, transposed: bool = False) -> ModelProto:
    """Return a graph of one recurrent operator, of 3 features and 4 units, on (5, 2, 3)."""
    rows = GATES[kind] * 4
    weights = {"w": np.ones((1, rows, 3), np.float32), "r": np.ones((1, rows, 4), np.float32)}
    first = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2])] if transposed else []
    given: dict[str, Any] = {"layout": layout} if layout else {}
    node = helper.make_node(kind, ["t" if transposed else "x", "w", "r"], ["y"], hidden_size=4, **given)
    graph = helper.make_graph(
        [*first, node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (5, 2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=10)


def samples(model: ModelProto) -> int | None:
    return profile(model, np.ones((5, 2, 3), np.float32), metrics=["macs"]).batch_size


@pytest.mark.parametrize("kind", GATES)
def test_a_recurrent_operator_has_the_batch_where_its_layout_says(kind: str) -> None:
    assert samples(recurrent(kind, layout=0)) == 2
    assert samples(recurrent(kind, layout=1)) == 5


def test_behind_a_transposition_the_first_dimension_is_the_batch() -> None:
    assert samples(recurrent("LSTM", layout=0, transposed=True)) == 5


def test_an_array_of_another_rank_is_named_by_the_trace() -> None:
    model = recurrent("LSTM", layout=0)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    status = profile(model, np.ones(5, np.float32), metrics=["macs"]).status("macs")
    assert status.completeness.value == "failed"
    assert "ndarray(5,)), do these inputs fit it?" in str(status)


def test_throughput_has_the_same_batch() -> None:
    metrics = ["execution_time", "throughput"]
    report = profile(recurrent("LSTM", 0), np.ones((5, 2, 3), np.float32), metrics=metrics, num_iters=3, warmup=0)
    assert report["throughput"].median * report["execution_time"].median == pytest.approx(2)


def test_time_is_not_cut_for_a_batch() -> None:
    with pytest.raises(InputError, match="takes them as a batch of 2, not along the first dimension"):
        profile(recurrent("GRU", 0), np.ones((5, 2, 3), np.float32), batch_size=3, metrics=["macs"], strict=True)
