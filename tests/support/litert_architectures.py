"""The shared architectures as files of LiteRT, made by hand as `profilerkit.testing.architectures` describes them.

Tensors have the names that the converter of TensorFlow writes: the scopes of Keras' layers, numbered by their calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from profilerkit.testing import architectures as sizes

pytest.importorskip("ai_edge_litert")  # doctests are looked for here too, in environments that lack it

import ml_dtypes
import numpy as np
from litert_models import GraphBuilder, options, write_model

from profilerkit_litert import LiteRTModel

#: The kind of each layer type that the models are made of: that of the operator in a layer.
KINDS = {
    "ADD": "batch normalisation",
    "AVERAGE_POOL_2D": "pooling",
    "CONV_2D": "convolution",
    "DEPTHWISE_CONV_2D": "convolution",
    "FULLY_CONNECTED": "linear",
    "GATHER": "embedding",
    "MEAN": "pooling",
    "Module": "block",
    "RELU": "activation",
    "RELU6": "activation",
    "RESHAPE": "flatten",
    "SQUEEZE": "dropout",
    "TANH": "activation",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "lstm",
}
SAME, VALID = 0, 1


class Network(GraphBuilder):
    """A graph whose layers have names; ``inside`` says which layers the operators to come belong to."""

    def __init__(self) -> None:
        super().__init__()
        self.scopes = ["net_1"]
        self.random = np.random.default_rng(0)
        self.made: dict[str, int] = {}
        self.dtype: Any = np.float32

    @contextmanager
    def inside(self, name: str, call: int = 1) -> Iterator[None]:
        self.scopes.append(f"{name}_{call}")
        yield
        self.scopes.pop()

    def full_name(self, name: str) -> str:
        return "/".join([*self.scopes, name])

    def weight(self, name: str, *shape: int) -> int:
        """Return a weight of the layer, the same one for each of its calls."""
        key = "/".join([scope.rpartition("_")[0] for scope in self.scopes] + [name])
        if key not in self.made:
            self.made[key] = self.constant(self.full_name(name), self.random.normal(size=shape).astype(self.dtype))
        return self.made[key]

    def one(self, name: str, operator: str, x: int, shape: tuple[int, ...], call: int = 1, **further: Any) -> Any:
        with self.inside(name, call):
            return self.add(
                operator, [x], shape, name=self.full_name(operator), dtype=str(np.dtype(self.dtype)), **further
            )

    def linear(self, name: str, x: int, inputs: int, outputs: int) -> Any:
        with self.inside(name):
            weights = [self.weight("MatMul", outputs, inputs), self.weight("BiasAdd", outputs)]
            return self.add(
                "FULLY_CONNECTED",
                [x, *weights],
                (-1, outputs),
                name=self.full_name("MatMul"),
                dtype=str(np.dtype(self.dtype)),
                options=options("FullyConnected"),
            )

    def conv(self, name: str, x: int, filters: tuple[int, ...], out: tuple[int, ...], **how: Any) -> Any:
        call, bias, padding = how.get("call", 1), how.get("bias", True), how.get("padding", SAME)
        kind = how.get("kind", "Conv2D")
        operator = {"Conv2D": "CONV_2D", "DepthwiseConv2D": "DEPTHWISE_CONV_2D"}[kind]
        stride = how.get("stride", 1)
        further = {"depthMultiplier": 1} if kind == "DepthwiseConv2D" else {}
        with self.inside(name, call):
            weights = [self.weight("convolution", *filters), *([self.weight("BiasAdd", out[-1])] if bias else [-1])]
            chosen = options(
                kind, padding=padding, strideH=stride, strideW=stride, dilationHFactor=1, dilationWFactor=1, **further
            )
            return self.add(operator, [x, *weights], (-1, *out), name=self.full_name("convolution"), options=chosen)

    def norm(self, name: str, x: int, out: tuple[int, ...], call: int = 1) -> Any:
        with self.inside(name, call):
            scaled = self.add(
                "MUL",
                [x, self.weight("mul", out[-1])],
                (-1, *out),
                name=self.full_name("mul_1"),
                options=options("Mul"),
            )
            return self.add(
                "ADD",
                [scaled, self.weight("sub", out[-1])],
                (-1, *out),
                name=self.full_name("add_1"),
                options=options("Add"),
            )

    def pool(self, name: str, x: int, out: tuple[int, ...]) -> Any:
        chosen = options("Pool2D", padding=VALID, strideH=2, strideW=2, filterHeight=2, filterWidth=2)
        return self.one(name, "AVERAGE_POOL_2D", x, (-1, *out), options=chosen)

    def mean(self, name: str, x: int, axes: list[int], out: tuple[int, ...], keep: bool = True) -> Any:
        with self.inside(name):
            axis = self.constant(self.full_name("axes"), np.asarray(axes, np.int32))
            return self.add(
                "MEAN", [x, axis], (-1, *out), name=self.full_name("Mean"), options=options("Reducer", keepDims=keep)
            )

    def flatten(self, x: int, features: int) -> Any:
        with self.inside("flatten"):
            flat = self.constant(self.full_name("shape"), np.asarray([-1, features], np.int32))
            return self.add(
                "RESHAPE",
                [x, flat],
                (-1, features),
                name=self.full_name("Reshape"),
                options=options("Reshape", newShape=[-1, features]),
            )

    def model(self, outputs: Mapping[str, int]) -> LiteRTModel:
        return LiteRTModel(write_model([self], [outputs], {"serving_default": 0}))


def build_mlp(grow: Callable[[Network, int], Any] = lambda network, x: x, dtype: Any = np.float32) -> LiteRTModel:
    """Return the network; ``grow`` adds to its end."""
    network, (first, second) = Network(), sizes.MLP_HIDDEN
    network.dtype = dtype
    x = network.input("x", (-1, sizes.MLP_FEATURES), str(np.dtype(dtype)))
    x = network.one("first_activation", "RELU", network.linear("first", x, sizes.MLP_FEATURES, first), (-1, first))
    x = network.one("drop", "SQUEEZE", x, (-1, first), options=options("Squeeze", squeezeDims=[]))
    x = network.one("second_activation", "RELU", network.linear("second", x, first, second), (-1, second))
    return network.model({"scores": grow(network, network.linear("classifier", x, second, sizes.CLASSES))})


def build_lenet5() -> LiteRTModel:
    network, (height, width, channels), (one, two) = Network(), sizes.LENET_IMAGE, sizes.LENET_CHANNELS
    x = network.input("x", (-1, *sizes.LENET_IMAGE))
    x = network.conv("first", x, (one, 5, 5, channels), (height, width, one))
    x = network.one("first_activation", "TANH", x, (-1, height, width, one))
    x = network.pool("first_pooling", x, (height // 2, width // 2, one))
    inner = height // 2 - 4, width // 2 - 4
    x = network.conv("second", x, (two, 5, 5, one), (*inner, two), padding=VALID)
    x = network.one("second_activation", "TANH", x, (-1, *inner, two))
    x = network.pool("second_pooling", x, (inner[0] // 2, inner[1] // 2, two))
    size = two * 5 * 5
    x = network.flatten(x, size)
    for name, units in zip(("third", "fourth"), sizes.LENET_HIDDEN, strict=True):
        x = network.one(f"{name}_activation", "TANH", network.linear(name, x, size, units), (-1, units))
        size = units
    return network.model({"scores": network.linear("classifier", x, size, sizes.CLASSES)})


def build_depthwise_cnn() -> LiteRTModel:
    network, (height, width, channels), (one, two) = Network(), sizes.DEPTHWISE_IMAGE, sizes.DEPTHWISE_CHANNELS
    half = height // 2, width // 2
    x = network.input("x", (-1, *sizes.DEPTHWISE_IMAGE))
    x = network.conv("stem", x, (one, 3, 3, channels), (height, width, one))
    x = network.one("stem_activation", "RELU6", x, (-1, height, width, one))
    x = network.conv("depthwise", x, (1, 3, 3, one), (*half, one), kind="DepthwiseConv2D", stride=2, bias=False)
    x = network.one("depthwise_activation", "RELU6", network.norm("norm", x, (*half, one)), (-1, *half, one))
    x = network.conv("pointwise", x, (two, 1, 1, one), (*half, two))
    x = network.one("pointwise_activation", "RELU6", x, (-1, *half, two))
    x = network.flatten(network.mean("pooling", x, [1, 2], (1, 1, two)), two)
    return network.model({"scores": network.linear("classifier", x, two, sizes.CLASSES)})


def build_residual_cnn() -> LiteRTModel:
    network, (height, width, channels), kept = Network(), sizes.RESIDUAL_IMAGE, sizes.RESIDUAL_CHANNELS
    image = height, width, kept
    x = network.input("x", (-1, *sizes.RESIDUAL_IMAGE))
    x = network.conv("stem", x, (kept, 3, 3, channels), image, bias=False)
    x = network.norm("stem_norm", x, image)
    for call in (1, 2):
        with network.inside("block", call):
            y = network.conv("convolution", x, (kept, 3, 3, kept), image, bias=False, call=call)
            y = network.one("activation", "RELU", network.norm("norm", y, image, call), (-1, *image), call=call)
        x = network.add("ADD", [x, y], (-1, *image), name=f"net_1/add_{call}", options=options("Add"))
    x = network.flatten(network.mean("pooling", x, [1, 2], (1, 1, kept)), kept)
    return network.model({"scores": network.linear("classifier", x, kept, sizes.CLASSES)})


def build_lstm() -> LiteRTModel:
    network, size, units = Network(), sizes.RECURRENT_FEATURES, sizes.RECURRENT_UNITS
    x = network.input("x", (-1, sizes.RECURRENT_STEPS, size))
    with network.inside("recurrent"):
        weights = [network.weight(f"kernel{gate}", units, size) for gate in range(4)]
        weights += [network.weight(f"recurrent_kernel{gate}", units, units) for gate in range(4)]
        biases = [network.constant(network.full_name(f"zeros{gate}"), np.zeros(0, np.float32)) for gate in range(0)]
        states = [network.tensor(network.full_name(name), (1, units), isVariable=True) for name in ("state", "cell")]
        inputs = [x, *weights, *[-1] * 3, *biases, *[-1] * 6, *states, *[-1] * 4]
        chosen = options("UnidirectionalSequenceLSTM", fusedActivationFunction=4, timeMajor=False)
        x = network.add(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            inputs,
            (-1, sizes.RECURRENT_STEPS, units),
            name=network.full_name("lstm"),
            options=chosen,
        )
    begin, end, stride = (
        network.constant(f"slice{place}", np.asarray(numbers, np.int32))
        for place, numbers in enumerate(([0, -1, 0], [0, 0, 0], [1, 1, 1]))
    )
    chosen = options("StridedSlice", beginMask=5, endMask=7, shrinkAxisMask=2)
    x = network.add("STRIDED_SLICE", [x, begin, end, stride], (-1, units), name="net_1/strided_slice", options=chosen)
    return network.model({"scores": network.linear("classifier", x, units, sizes.CLASSES)})


def build_embedding_classifier() -> LiteRTModel:
    network, width = Network(), sizes.EMBEDDING_WIDTH
    x = network.input("x", (-1, sizes.EMBEDDING_STEPS), "int64")
    with network.inside("embedding"):
        words = network.weight("GatherV2", sizes.EMBEDDING_WORDS, width)
        x = network.add(
            "GATHER",
            [words, x],
            (-1, sizes.EMBEDDING_STEPS, width),
            name=network.full_name("GatherV2"),
            options=options("Gather", axis=0),
        )
    axis = network.constant("axes", np.asarray([1], np.int32))
    x = network.add("MEAN", [x, axis], (-1, width), name="net_1/Mean", options=options("Reducer", keepDims=False))
    return network.model({"scores": network.linear("classifier", x, width, sizes.CLASSES)})


def build_dict_in_and_out() -> LiteRTModel:
    network, (height, width, channels) = Network(), sizes.DICT_IMAGE
    x, meta = network.input("image", (-1, *sizes.DICT_IMAGE)), network.input("meta", (-1, sizes.DICT_META))
    x = network.conv("convolution", x, (sizes.DICT_CHANNELS, 3, 3, channels), (height, width, sizes.DICT_CHANNELS))
    x = network.one("activation", "RELU", x, (-1, height, width, sizes.DICT_CHANNELS))
    features = height * width * sizes.DICT_CHANNELS
    x = network.linear("image_features", network.flatten(x, features), features, sizes.DICT_WIDTH)
    y = network.linear("meta_features", meta, sizes.DICT_META, sizes.DICT_WIDTH)
    x = network.add("ADD", [x, y], (-1, sizes.DICT_WIDTH), name="net_1/add", options=options("Add"))
    return network.model(
        {
            "scores": network.linear("scores", x, sizes.DICT_WIDTH, sizes.CLASSES),
            "value": network.linear("value", x, sizes.DICT_WIDTH, 1),
        }
    )


BUILDERS: Mapping[str, Callable[[], LiteRTModel]] = {
    "mlp": build_mlp,
    "lenet5": build_lenet5,
    "embedding_classifier": build_embedding_classifier,
    "dict_in_and_out": build_dict_in_and_out,
}
#: Those that are counted, and that no kernel runs.
ONLY_COUNTED: Mapping[str, Callable[[], LiteRTModel]] = {
    "depthwise_cnn": build_depthwise_cnn,
    "residual_cnn": build_residual_cnn,
    "lstm": build_lstm,
}
#: What the kernels of LiteRT cannot run, or its operators not say.
NOT_EXPRESSIBLE = {
    "depthwise_cnn": "the kernels of LiteRT's convolutions need a bias",
    "residual_cnn": "the kernels of LiteRT's convolutions need a bias",
    "lstm": "the kernels of LiteRT's LSTM need biases",
    "gru": "LiteRT has no operator of a GRU, and converts one into a loop",
    "transformer_encoder": "LiteRT has no operator of a layer normalization, whose parts take an operation more",
}


def build_low_precision(dtype: str) -> LiteRTModel:
    """Return "mlp" with all weights in bfloat16, or with matrices of int8 whose scales are those of the rows."""
    if dtype == "bfloat16":
        return build_mlp(dtype=ml_dtypes.bfloat16)

    class Quantized(Network):
        def weight(self, name: str, *shape: int) -> int:
            if len(shape) < 2:
                return super().weight(name, *shape)
            return self.constant(self.full_name(name), np.zeros(shape, np.int8), scales=[0.01] * shape[0])

    network, (first, second) = Quantized(), sizes.MLP_HIDDEN
    x = network.input("x", (-1, sizes.MLP_FEATURES))
    x = network.linear("first", x, sizes.MLP_FEATURES, first)
    x = network.linear("second", network.one("first_activation", "RELU", x, (-1, first)), first, second)
    x = network.one("second_activation", "RELU", x, (-1, second))
    return network.model({"scores": network.linear("classifier", x, second, sizes.CLASSES)})
