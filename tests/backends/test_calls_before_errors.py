"""A model that raises: its layers have the calls before the error, in every backend; what they cost is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profilerkit import ModelInputs, ModelTrace


def torch_trace() -> ModelTrace:
    torch = pytest.importorskip("torch")
    from profilerkit_torch.backend import TorchBackend

    class Raising(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = (torch.nn.Linear(8, size) for size in (8, 8, 8))

        def forward(self, x: Any) -> Any:
            return self.third(self.second(self.first(self.first(x))[:, :5]))  # the second takes eight

    return TorchBackend().trace(Raising(), ModelInputs(torch.zeros(2, 8)))


def keras_trace() -> ModelTrace:
    pytest.importorskip("tensorflow")
    import keras

    from profilerkit_tensorflow.backend import TFBackend

    class Raising(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = (keras.layers.Dense(8) for _ in range(3))
            for layer in (self.first, self.second, self.third):
                layer.build((None, 8))
            self.built = True

        def call(self, x: Any) -> Any:
            return self.third(self.second(self.first(self.first(x))[:, :5]))  # the second takes eight

    return TFBackend().trace(Raising(), ModelInputs(np.zeros((2, 8), np.float32)))


def onnx_trace() -> ModelTrace:
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    from profilerkit_onnx.backend import OnnxBackend

    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    cut = [numpy_helper.from_array(np.asarray([value]), name) for name, value in (("from", 0), ("to", 5), ("axis", 1))]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="/first/MatMul"),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="/first_1/MatMul"),
        helper.make_node("Slice", ["b", "from", "to", "axis"], ["c"], name="/Slice"),
        helper.make_node("MatMul", ["c", "w"], ["d"], name="/second/MatMul"),
        helper.make_node("MatMul", ["d", "w"], ["y"], name="/third/MatMul"),
    ]
    declared = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "raising", [declared], [result], [weight, *cut])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return OnnxBackend().trace(model, ModelInputs(np.zeros((2, 8), np.float32)))


@pytest.mark.parametrize("traced", [torch_trace, keras_trace, onnx_trace])
def test_a_layer_has_its_calls_before_the_error(traced: Any) -> None:
    trace = traced()
    assert trace.failure is not None
    calls = {row["path"]: row["calls"] for row in trace.table}
    assert calls == {"": 1, "first": 2, "second": 1, "third": None}
    first = trace.layer("first").calls[0]
    assert [info.shape for info in (*first.inputs, *first.outputs)] == [(2, 8), (2, 8)]
    [second] = trace.layer("second").calls
    assert second.outputs == ()
    if traced is not onnx_trace:  # there the node itself is what does not fit, and none of its layer has run
        assert [info.shape for info in second.inputs] == [(2, 5)]
    assert {row["macs"] for row in trace.table} == {None}
