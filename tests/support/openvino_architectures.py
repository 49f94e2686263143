"""The shared architectures as graphs of OpenVINO, made by hand as `profilerkit.testing.architectures` describes them.

Nodes have the names that OpenVINO's converter of torch models writes: ``__module.block.conv/aten::conv2d/Convolution``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from profilerkit.testing import architectures as sizes

pytest.importorskip("openvino")  # doctests are looked for here too, in environments that lack it

import numpy as np
import openvino
from openvino import opset16 as ops

#: The kind of each layer type that the models are made of.
KINDS = {
    "Add": "block",
    "AvgPool": "pooling",
    "BatchNormInference": "batch normalisation",
    "Clamp": "activation",
    "Convolution": "convolution",
    "Gather": "embedding",
    "Gelu": "activation",
    "GroupConvolution": "convolution",
    "Identity": "dropout",
    "LSTMSequence": "lstm",
    "MatMul": "linear",
    "Module": "block",
    "Multiply": "layer normalisation",
    "ReduceMean": "pooling",
    "Relu": "activation",
    "Reshape": "flatten",
    "ScaledDotProductAttention": "attention",
    "Tanh": "activation",
}


class Graph:
    """A graph that grows node by node; ``inside`` says which layers the nodes to come belong to."""

    def __init__(self, dtype: Any = None) -> None:
        self.path: list[str] = []
        self.random = np.random.default_rng(0)
        self.dtype = dtype or openvino.Type.f32
        self.weights: dict[str, Any] = {}
        self.nodes = 0

    def inside(self, name: str) -> Graph:
        self.path.append(name)
        return self

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *_: object) -> None:
        self.path.pop()

    def add(self, make: Callable[..., Any], *inputs: Any, **attributes: Any) -> Any:
        node = make(*inputs, **attributes)
        self.nodes += 1
        scope = f"__module.{'.'.join(self.path)}/" if self.path else ""
        node.set_friendly_name(f"{scope}aten::{make.__name__}/{node.get_type_name()}_{self.nodes}")
        return node

    def weight(self, name: str, *shape: int) -> Any:
        full = ".".join(("self", *self.path, name))
        if full not in self.weights:
            values = np.abs(self.random.normal(size=shape)).astype(np.float32)
            self.weights[full] = ops.constant(values, dtype=self.dtype, name=full)
        return self.weights[full]

    def linear(self, name: str, x: Any, inputs: int, outputs: int) -> Any:
        with self.inside(name):
            product = self.add(ops.matmul, x, self.weight("weight", outputs, inputs), False, True)
            return self.add(ops.add, product, self.weight("bias", 1, outputs))

    def conv(self, name: str, x: Any, inputs: int, outputs: int, size: int, pad: int = 0, bias: bool = True) -> Any:
        with self.inside(name):
            weight = self.weight("weight", outputs, inputs, size, size)
            y = self.add(ops.convolution, x, weight, [1, 1], [pad, pad], [pad, pad], [1, 1])
            return self.add(ops.add, y, self.weight("bias", 1, outputs, 1, 1)) if bias else y

    def batch_norm(self, name: str, x: Any, channels: int) -> Any:
        with self.inside(name):
            scale, shift, mean, variance = (self.weight(item, channels) for item in ("weight", "bias", "mean", "var"))
            return self.add(ops.batch_norm_inference, x, scale, shift, mean, variance, 1e-5)

    def layer_norm(self, name: str, x: Any, width: int) -> Any:
        with self.inside(name):
            y = self.add(ops.mvn, x, ops.constant(np.array([-1])), True, 1e-5, "inside_sqrt")
            return self.add(
                ops.add, self.add(ops.multiply, y, self.weight("weight", width)), self.weight("bias", width)
            )

    def one(self, name: str, make: Callable[..., Any], x: Any, *inputs: Any, **attributes: Any) -> Any:
        with self.inside(name):
            return self.add(make, x, *inputs, **attributes)

    def flatten(self, x: Any) -> Any:
        return self.one("flatten", ops.reshape, x, ops.constant(np.array([0, -1])), special_zero=True)

    def mean(self, name: str, x: Any) -> Any:
        return self.one(name, ops.reduce_mean, x, ops.constant(np.array([2, 3])), keep_dims=True)

    def parameter(self, name: str, *shape: int, dtype: Any = None) -> Any:
        return ops.parameter([-1, *shape], dtype or self.dtype, name=name)


def channels_first(height: int, width: int, channels: int) -> tuple[int, int, int]:
    return channels, height, width


def build_mlp(grow: Callable[[Graph, Any], Any] = lambda graph, x: x, dtype: Any = None) -> Any:
    """Return the network; ``grow`` adds to its end."""
    graph, (first, second) = Graph(dtype), sizes.MLP_HIDDEN
    given = graph.parameter("x", sizes.MLP_FEATURES)
    x = graph.one("first_activation", ops.relu, graph.linear("first", given, sizes.MLP_FEATURES, first))
    x = graph.one("dropout", ops.identity, x)
    x = graph.one("second_activation", ops.relu, graph.linear("second", x, first, second))
    return openvino.Model([grow(graph, graph.linear("classifier", x, second, sizes.CLASSES))], [given], "net")


def _average(graph: Graph, name: str, x: Any) -> Any:
    return graph.one(name, ops.avg_pool, x, [2, 2], [0, 0], [0, 0], [2, 2], True, dilations=[1, 1])


def build_lenet5() -> Any:
    graph, (one, two) = Graph(), sizes.LENET_CHANNELS
    given = graph.parameter("x", *channels_first(*sizes.LENET_IMAGE))
    x = graph.one("first_activation", ops.tanh, graph.conv("first", given, sizes.LENET_IMAGE[2], one, 5, 2))
    x = _average(graph, "first_pooling", x)
    x = graph.one("second_activation", ops.tanh, graph.conv("second", x, one, two, 5))
    x = graph.flatten(_average(graph, "second_pooling", x))
    size = two * 5 * 5
    for name, width in zip(("third", "fourth"), sizes.LENET_HIDDEN, strict=True):
        x = graph.one(f"{name}_activation", ops.tanh, graph.linear(name, x, size, width))
        size = width
    return openvino.Model([graph.linear("classifier", x, size, sizes.CLASSES)], [given], "net")


def build_depthwise_cnn() -> Any:
    graph, (one, two) = Graph(), sizes.DEPTHWISE_CHANNELS
    given = graph.parameter("x", *channels_first(*sizes.DEPTHWISE_IMAGE))
    x = graph.conv("stem", given, sizes.DEPTHWISE_IMAGE[2], one, 3, 1)
    x = graph.one("stem_activation", ops.clamp, x, 0.0, 6.0)
    with graph.inside("depthwise"):
        weight = graph.weight("weight", one, 1, 1, 3, 3)
        x = graph.add(ops.group_convolution, x, weight, [2, 2], [1, 1], [1, 1], [1, 1])
    x = graph.one("depthwise_activation", ops.clamp, graph.batch_norm("norm", x, one), 0.0, 6.0)
    x = graph.one("pointwise_activation", ops.clamp, graph.conv("pointwise", x, one, two, 1), 0.0, 6.0)
    x = graph.flatten(graph.mean("pooling", x))
    return openvino.Model([graph.linear("classifier", x, two, sizes.CLASSES)], [given], "net")


def build_residual_cnn() -> Any:
    graph, kept = Graph(), sizes.RESIDUAL_CHANNELS
    given = graph.parameter("x", *channels_first(*sizes.RESIDUAL_IMAGE))
    x = graph.batch_norm("stem_norm", graph.conv("stem", given, sizes.RESIDUAL_IMAGE[2], kept, 3, 1, bias=False), kept)
    for _ in range(2):
        with graph.inside("block"):
            y = graph.batch_norm("norm", graph.conv("convolution", x, kept, kept, 3, 1, bias=False), kept)
            y = graph.one("activation", ops.relu, y)
        x = graph.add(ops.add, x, y)
    x = graph.flatten(graph.mean("pooling", x))
    return openvino.Model([graph.linear("classifier", x, kept, sizes.CLASSES)], [given], "net")


def build_lstm() -> Any:
    """The states begin as zeros of the batch's size; a bias is there always, of zeros."""
    graph, size, units = Graph(), sizes.RECURRENT_FEATURES, sizes.RECURRENT_UNITS
    given = graph.parameter("x", sizes.RECURRENT_STEPS, size)
    batch = ops.gather(ops.shape_of(given), ops.constant(np.array([0])), ops.constant(0))
    zeros = ops.broadcast(ops.constant(np.float32(0)), ops.concat([batch, ops.constant(np.array([1, units]))], 0))
    lengths = ops.broadcast(ops.constant(np.array([sizes.RECURRENT_STEPS])), batch)
    with graph.inside("recurrent"):
        weights = graph.weight("W", 1, 4 * units, size), graph.weight("R", 1, 4 * units, units)
        bias = ops.broadcast(ops.constant(np.float32(0)), ops.constant(np.array([1, 4 * units])))
        steps = graph.add(ops.lstm_sequence, given, zeros, zeros, lengths, *weights, bias, units, "forward").output(0)
    last = graph.add(ops.gather, steps, ops.constant(-1), ops.constant(2))
    last = graph.add(ops.squeeze, last, ops.constant(np.array([1])))
    return openvino.Model([graph.linear("classifier", last, units, sizes.CLASSES)], [given], "net")


def build_transformer_encoder() -> Any:
    graph, width = Graph(), sizes.ENCODER_WIDTH
    given = graph.parameter("x", sizes.ENCODER_STEPS, width)
    x = graph.add(ops.add, given, graph.weight("positions", sizes.ENCODER_STEPS, width))
    for name in ("first_block", "second_block"):
        with graph.inside(name):
            x = graph.add(ops.add, x, _attention(graph, graph.layer_norm("norm", x, width)))
            y = graph.linear("first", graph.layer_norm("second_norm", x, width), width, sizes.ENCODER_HIDDEN)
            y = graph.linear("second", graph.one("activation", ops.gelu, y, "erf"), sizes.ENCODER_HIDDEN, width)
            x = graph.add(ops.add, x, y)
    x = graph.layer_norm("norm", x, width)
    x = graph.add(ops.reduce_mean, x, ops.constant(np.array([1])), keep_dims=False)
    return openvino.Model([graph.linear("classifier", x, width, sizes.CLASSES)], [given], "net")


def _attention(graph: Graph, x: Any) -> Any:
    heads, width = sizes.ENCODER_HEADS, sizes.ENCODER_WIDTH
    order = ops.constant(np.array([0, 2, 1, 3]))
    with graph.inside("attention"):
        parts = []
        for name in ("query", "key", "value"):
            split = ops.constant(np.array([0, sizes.ENCODER_STEPS, heads, width // heads]))
            split = graph.add(ops.reshape, graph.linear(name, x, width, width), split, special_zero=True)
            parts.append(graph.add(ops.transpose, split, order))
        mixed = graph.add(ops.transpose, graph.add(ops.scaled_dot_product_attention, *parts), order)
        joined = graph.add(
            ops.reshape, mixed, ops.constant(np.array([0, sizes.ENCODER_STEPS, width])), special_zero=True
        )
        return graph.linear("output", joined, width, width)


def build_embedding_classifier() -> Any:
    graph, width = Graph(), sizes.EMBEDDING_WIDTH
    given = graph.parameter("x", sizes.EMBEDDING_STEPS, dtype=openvino.Type.i64)
    with graph.inside("embedding"):
        x = graph.add(ops.gather, graph.weight("weight", sizes.EMBEDDING_WORDS, width), given, ops.constant(0))
    x = graph.add(ops.reduce_mean, x, ops.constant(np.array([1])), keep_dims=False)
    return openvino.Model([graph.linear("classifier", x, width, sizes.CLASSES)], [given], "net")


def build_dict_in_and_out() -> Any:
    graph, (height, width, channels) = Graph(), sizes.DICT_IMAGE
    image, meta = graph.parameter("image", *channels_first(*sizes.DICT_IMAGE)), graph.parameter("meta", sizes.DICT_META)
    x = graph.one("activation", ops.relu, graph.conv("convolution", image, channels, sizes.DICT_CHANNELS, 3, 1))
    x = graph.linear("image_features", graph.flatten(x), height * width * sizes.DICT_CHANNELS, sizes.DICT_WIDTH)
    x = graph.add(ops.add, x, graph.linear("meta_features", meta, sizes.DICT_META, sizes.DICT_WIDTH))
    outputs = [
        graph.linear(name, x, sizes.DICT_WIDTH, size) for name, size in (("scores", sizes.CLASSES), ("value", 1))
    ]
    for output, name in zip(outputs, ("scores", "value"), strict=True):
        output.output(0).set_names({name})
    return openvino.Model(outputs[::-1], [image, meta], "net")  # the last comes first in the order of the nodes


def build_low_precision(dtype: str) -> Any:
    """Return "mlp" with all weights in bfloat16, or with matrices of int8 that are converted and scaled."""
    if dtype == "bfloat16":
        return build_mlp(dtype=openvino.Type.bf16)
    model = build_mlp()
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Constant" and min(node.get_output_shape(0)) > 1:
            narrow = ops.constant(np.zeros(tuple(node.get_output_shape(0)), np.int8), name=node.get_friendly_name())
            scaled = ops.multiply(ops.convert(narrow, "f32"), ops.constant(np.full((1, 1), 0.01, np.float32)))
            for target in node.output(0).get_target_inputs():
                target.replace_source_output(scaled.output(0))
    return model


BUILDERS: Mapping[str, Callable[[], Any]] = {
    "mlp": build_mlp,
    "lenet5": build_lenet5,
    "depthwise_cnn": build_depthwise_cnn,
    "residual_cnn": build_residual_cnn,
    "lstm": build_lstm,
    "transformer_encoder": build_transformer_encoder,
    "embedding_classifier": build_embedding_classifier,
    "dict_in_and_out": build_dict_in_and_out,
}
