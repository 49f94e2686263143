"""The shared architectures as ONNX graphs, made by hand as `profilerkit.testing.architectures` describes them.

Each node has the metadata that torch's exporter writes: the paths and classes of the layers around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from profilerkit.testing import architectures as sizes

pytest.importorskip("onnx")  # doctests are looked for here too, in environments that lack it

import ml_dtypes
import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 20

#: The kind of each layer type that the models are made of.
KINDS = {
    "Attention": "attention",
    "Block": "block",
    "Conv": "convolution",
    "Dropout": "dropout",
    "Embedding": "embedding",
    "EncoderBlock": "block",
    "Flatten": "flatten",
    "Gemm": "linear",
    "MatMul": "linear",
    "LSTM": "lstm",
    "GRU": "gru",
    "LayerNorm": "layer normalisation",
    "BatchNorm": "batch normalisation",
    "Pool": "pooling",
    "Activation": "activation",
}


class Graph:
    """A graph that grows node by node; ``inside`` says which layers the nodes to come belong to."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.path: list[tuple[str, str]] = [("", "Model")]
        self.random = np.random.default_rng(0)
        self.dtype: Any = np.float32

    def inside(self, name: str, kind: str) -> Graph:
        outer = self.path[-1][0]
        self.path.append((f"{outer}.{name}" if outer else name, kind))
        return self

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *_: object) -> None:
        self.path.pop()

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"value_{len(self.nodes)}_{index}" for index in range(outputs)]
        node = helper.make_node(op, inputs, names, name=f"node_{len(self.nodes)}", **attributes)
        paths, kinds = ([part[index] for part in self.path] for index in (0, 1))
        entries = {"name_scopes": [*paths, node.name], "class_hierarchy": [*kinds, op]}
        for key, value in entries.items():
            node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=repr(value))
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def weight(self, name: str, *shape: int) -> str:
        full = f"{self.path[-1][0]}.{name}" if self.path[-1][0] else name
        if full not in {tensor.name for tensor in self.weights}:
            values = self.random.normal(size=shape).astype(np.float32).astype(self.dtype)
            self.weights.append(numpy_helper.from_array(np.abs(values), full))
        return full

    def constant(self, *numbers: int) -> str:
        name = f"numbers_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(numbers, np.int64), name))
        return name

    # Layers -------------------------------------------------------------------------------------------------------

    def linear(self, name: str, x: str, inputs: int, outputs: int) -> Any:
        with self.inside(name, "Gemm"):
            return self.add("Gemm", x, self.weight("weight", outputs, inputs), self.weight("bias", outputs), transB=1)

    def dense(self, name: str, x: str, inputs: int, outputs: int) -> Any:
        with self.inside(name, "MatMul"):
            return self.add("Add", self.add("MatMul", x, self.weight("w", inputs, outputs)), self.weight("b", outputs))

    def conv(
        self, name: str, x: str, inputs: int, outputs: int, size: int, bias: bool = True, **attributes: Any
    ) -> Any:
        groups = attributes.get("group", 1)
        with self.inside(name, "Conv"):
            weights = [self.weight("weight", outputs, inputs // groups, size, size)]
            return self.add("Conv", x, *weights, *([self.weight("bias", outputs)] if bias else []), **attributes)

    def batch_norm(self, name: str, x: str, channels: int) -> Any:
        with self.inside(name, "BatchNorm"):
            names = [self.weight(item, channels) for item in ("weight", "bias", "mean", "variance")]
            return self.add("BatchNormalization", x, *names)

    def layer_norm(self, name: str, x: str, width: int) -> Any:
        with self.inside(name, "LayerNorm"):
            return self.add("LayerNormalization", x, self.weight("weight", width), self.weight("bias", width))

    def one(self, name: str, kind: str, op: str, x: str, **attributes: Any) -> Any:
        with self.inside(name, kind):
            return self.add(op, x, **attributes)

    def model(self, inputs: Mapping[str, tuple[Any, ...]], outputs: Mapping[str, str], **dtypes: int) -> ModelProto:
        nodes = [helper.make_node("Identity", [made], [name]) for name, made in outputs.items()]
        for node, made in zip(nodes, outputs.values(), strict=True):  # a result has the name that users know
            maker = next(one_node for one_node in self.nodes if made in one_node.output)
            maker.output[list(maker.output).index(made)] = node.output[0]
            for one_node in self.nodes:
                one_node.input[:] = [node.output[0] if name == made else name for name in one_node.input]
        graph = helper.make_graph(
            self.nodes,
            "hand_made",
            [
                helper.make_tensor_value_info(name, dtypes.get(name, TensorProto.FLOAT), ["batch", *shape])
                for name, shape in inputs.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def channels_first(height: int, width: int, channels: int) -> tuple[int, int, int]:
    return channels, height, width


def build_mlp(
    grow: Callable[[Graph, str], str] = lambda graph, x: x, dtype: Any = np.float32, element: int = TensorProto.FLOAT
) -> ModelProto:
    """Return the network; ``grow`` adds to its end."""
    graph, (first, second) = Graph(), sizes.MLP_HIDDEN
    graph.dtype = dtype
    x = graph.linear("first", "x", sizes.MLP_FEATURES, first)
    x = graph.one("first_activation", "Activation", "Relu", x)
    x = graph.one("dropout", "Dropout", "Dropout", x)
    x = graph.linear("second", x, first, second)
    x = graph.one("second_activation", "Activation", "Relu", x)
    x = grow(graph, graph.linear("classifier", x, second, sizes.CLASSES))
    return graph.model({"x": (sizes.MLP_FEATURES,)}, {"scores": x}, x=element)


def build_lenet5() -> ModelProto:
    graph, (one, two) = Graph(), sizes.LENET_CHANNELS
    x = graph.conv("first", "x", sizes.LENET_IMAGE[2], one, 5, pads=[2, 2, 2, 2])
    x = graph.one("first_activation", "Activation", "Tanh", x)
    x = graph.one("first_pooling", "Pool", "AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = graph.conv("second", x, one, two, 5)
    x = graph.one("second_activation", "Activation", "Tanh", x)
    x = graph.one("second_pooling", "Pool", "AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = graph.one("flatten", "Flatten", "Flatten", x)
    size = two * 5 * 5
    for name, width in zip(("third", "fourth"), sizes.LENET_HIDDEN, strict=True):
        x = graph.one(f"{name}_activation", "Activation", "Tanh", graph.linear(name, x, size, width))
        size = width
    return graph.model(
        {"x": channels_first(*sizes.LENET_IMAGE)}, {"scores": graph.linear("classifier", x, size, sizes.CLASSES)}
    )


def build_depthwise_cnn() -> ModelProto:
    graph, (one, two) = Graph(), sizes.DEPTHWISE_CHANNELS
    limits = [numpy_helper.from_array(np.asarray(limit, np.float32), f"limit_{limit}") for limit in (0, 6)]
    graph.weights += limits

    def relu6(name: str, x: str) -> str:
        with graph.inside(name, "Activation"):
            return str(graph.add("Clip", x, *(limit.name for limit in limits)))

    x = graph.conv("stem", "x", sizes.DEPTHWISE_IMAGE[2], one, 3, pads=[1] * 4)
    x = relu6("stem_activation", x)
    x = graph.conv("depthwise", x, one, one, 3, bias=False, pads=[1] * 4, strides=[2, 2], group=one)
    x = relu6("depthwise_activation", graph.batch_norm("norm", x, one))
    x = relu6("pointwise_activation", graph.conv("pointwise", x, one, two, 1))
    x = graph.one("pooling", "Pool", "GlobalAveragePool", x)
    x = graph.one("flatten", "Flatten", "Flatten", x)
    return graph.model(
        {"x": channels_first(*sizes.DEPTHWISE_IMAGE)}, {"scores": graph.linear("classifier", x, two, sizes.CLASSES)}
    )


def build_residual_cnn() -> ModelProto:
    graph, kept = Graph(), sizes.RESIDUAL_CHANNELS
    x = graph.conv("stem", "x", sizes.RESIDUAL_IMAGE[2], kept, 3, bias=False, pads=[1] * 4)
    x = graph.batch_norm("stem_norm", x, kept)
    for _ in range(2):
        with graph.inside("block", "Block"):
            y = graph.conv("convolution", x, kept, kept, 3, bias=False, pads=[1] * 4)
            y = graph.one("activation", "Activation", "Relu", graph.batch_norm("norm", y, kept))
        x = graph.add("Add", x, y)
    x = graph.one("pooling", "Pool", "GlobalAveragePool", x)
    x = graph.one("flatten", "Flatten", "Flatten", x)
    return graph.model(
        {"x": channels_first(*sizes.RESIDUAL_IMAGE)}, {"scores": graph.linear("classifier", x, kept, sizes.CLASSES)}
    )


def _recurrent(op: str, gates: int, bias: bool) -> ModelProto:
    graph, size, units = Graph(), sizes.RECURRENT_FEATURES, sizes.RECURRENT_UNITS
    with graph.inside("recurrent", op):
        names = [graph.weight("W", 1, gates * units, size), graph.weight("R", 1, gates * units, units)]
        names += [graph.weight("B", 1, 2 * gates * units)] if bias else []
        further = {"linear_before_reset": 1} if op == "GRU" else {}
        turned = graph.add("Transpose", "x", perm=[1, 0, 2])
        steps = graph.add(op, turned, *names, hidden_size=units, **further)
        steps = graph.add("Squeeze", steps, graph.constant(1))
    last = graph.add("Gather", steps, graph.constant(-1), axis=0)
    last = graph.add("Squeeze", last, graph.constant(0))
    scores = graph.linear("classifier", last, units, sizes.CLASSES)
    return graph.model({"x": (sizes.RECURRENT_STEPS, size)}, {"scores": scores})


def build_transformer_encoder() -> ModelProto:
    graph, width = Graph(), sizes.ENCODER_WIDTH
    x = graph.add("Add", "x", graph.weight("positions", sizes.ENCODER_STEPS, width))
    for name in ("first_block", "second_block"):
        with graph.inside(name, "EncoderBlock"):
            y = _attention(graph, graph.layer_norm("norm", x, width))
            x = graph.add("Add", x, y)
            y = graph.dense("first", graph.layer_norm("second_norm", x, width), width, sizes.ENCODER_HIDDEN)
            y = graph.dense("second", graph.one("activation", "Activation", "Gelu", y), sizes.ENCODER_HIDDEN, width)
            x = graph.add("Add", x, y)
    x = graph.layer_norm("norm", x, width)
    x = graph.add("ReduceMean", x, graph.constant(1), keepdims=0)
    return graph.model(
        {"x": (sizes.ENCODER_STEPS, width)}, {"scores": graph.linear("classifier", x, width, sizes.CLASSES)}
    )


def _attention(graph: Graph, x: str) -> Any:
    heads, width = sizes.ENCODER_HEADS, sizes.ENCODER_WIDTH
    with graph.inside("attention", "Attention"):
        parts = {name: graph.dense(name, x, width, width) for name in ("query", "key", "value")}
        for name, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            split = graph.add("Reshape", parts[name], graph.constant(0, sizes.ENCODER_STEPS, heads, width // heads))
            parts[name] = graph.add("Transpose", split, perm=order)
        scale = f"scale_{len(graph.weights)}"
        graph.weights.append(numpy_helper.from_array(np.asarray((width // heads) ** -0.5, np.float32), scale))
        scores = graph.add("Mul", graph.add("MatMul", parts["query"], parts["key"]), scale)
        mixed = graph.add("MatMul", graph.add("Softmax", scores), parts["value"])
        joined = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
        return graph.dense(
            "output", graph.add("Reshape", joined, graph.constant(0, sizes.ENCODER_STEPS, width)), width, width
        )


def build_embedding_classifier() -> ModelProto:
    graph, width = Graph(), sizes.EMBEDDING_WIDTH
    with graph.inside("embedding", "Embedding"):
        x = graph.add("Gather", graph.weight("weight", sizes.EMBEDDING_WORDS, width), "x")
    x = graph.add("ReduceMean", x, graph.constant(1), keepdims=0)
    scores = graph.linear("classifier", x, width, sizes.CLASSES)
    return graph.model({"x": (sizes.EMBEDDING_STEPS,)}, {"scores": scores}, x=TensorProto.INT64)


def build_dict_in_and_out() -> ModelProto:
    graph, (height, width, channels) = Graph(), sizes.DICT_IMAGE
    x = graph.conv("convolution", "image", channels, sizes.DICT_CHANNELS, 3, pads=[1] * 4)
    x = graph.one("flatten", "Flatten", "Flatten", graph.one("activation", "Activation", "Relu", x))
    x = graph.linear("image_features", x, height * width * sizes.DICT_CHANNELS, sizes.DICT_WIDTH)
    x = graph.add("Add", x, graph.linear("meta_features", "meta", sizes.DICT_META, sizes.DICT_WIDTH))
    outputs = {
        "scores": graph.linear("scores", x, sizes.DICT_WIDTH, sizes.CLASSES),
        "value": graph.linear("value", x, sizes.DICT_WIDTH, 1),
    }
    return graph.model({"image": channels_first(*sizes.DICT_IMAGE), "meta": (sizes.DICT_META,)}, outputs)


def build_low_precision(dtype: str) -> ModelProto:
    """Return "mlp" with all weights in bfloat16, or with matrices of int8 that are dequantized where they are used."""
    if dtype == "bfloat16":
        return build_mlp(dtype=ml_dtypes.bfloat16, element=TensorProto.BFLOAT16)
    model = build_mlp()
    tensors = list(model.graph.initializer)
    scale = numpy_helper.from_array(np.asarray(0.01, np.float32), "scale")
    del model.graph.initializer[:]
    model.graph.initializer.extend([scale])
    nodes = list(model.graph.node)
    for tensor in tensors:
        if len(tensor.dims) < 2:
            model.graph.initializer.extend([tensor])
            continue
        values = np.zeros(tuple(tensor.dims), np.int8)
        model.graph.initializer.extend([numpy_helper.from_array(values, f"{tensor.name}_quantized")])
        nodes.insert(0, helper.make_node("DequantizeLinear", [f"{tensor.name}_quantized", "scale"], [tensor.name]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


BUILDERS: Mapping[str, Callable[[], ModelProto]] = {
    "mlp": build_mlp,
    "lenet5": build_lenet5,
    "depthwise_cnn": build_depthwise_cnn,
    "residual_cnn": build_residual_cnn,
    "lstm": lambda: _recurrent("LSTM", 4, bias=False),
    "gru": lambda: _recurrent("GRU", 3, bias=True),
    "transformer_encoder": build_transformer_encoder,
    "embedding_classifier": build_embedding_classifier,
    "dict_in_and_out": build_dict_in_and_out,
}
