"""The settings of layers, from the attributes of their nodes."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from profilerkit import profile


def make_model() -> ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="/conv/Conv", kernel_shape=[3, 5], strides=[2, 2], group=1),
        helper.make_node("Relu", ["a"], ["b"], name="/act/Relu"),
        helper.make_node("MaxPool", ["b"], ["c"], name="/pools/MaxPool", kernel_shape=[2, 2]),
        helper.make_node("MaxPool", ["c"], ["y"], name="/pools/MaxPool_1", kernel_shape=[3, 3]),
    ]
    weights = numpy_helper.from_array(np.zeros((4, 3, 3, 5), "float32"), "w")
    shapes = {"x": [1, 3, 16, 16], "y": [1, 4, 4, 3]}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "net", [values[0]], [values[1]], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_layers_have_the_settings_of_their_nodes() -> None:
    table = profile(make_model(), metrics=["macs"]).layers
    assert table is not None
    written = {row["path"]: row["configuration"] for row in table}
    assert written["conv"] == "group=1, kernel_shape=(3, 5), strides=(2, 2)"
    assert (written[""], written["act"]) == ("", "")
    assert written["pools"] == "", "two nodes of one layer differ"
