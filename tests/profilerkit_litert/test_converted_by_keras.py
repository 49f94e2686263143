"""Models of Keras as TensorFlow's converter writes them: the same MACs, and what else the converter has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tensorflow")
import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras_to_litert import convert

from profilerkit import profile
from profilerkit_litert import LiteRTBackend

METRICS = ["macs", "flops", "total_params", "model_size"]
BACKEND = LiteRTBackend()


def set_random_weights(model: Any) -> Any:
    """Give each variable numbers that differ: the converter makes one of equal constants, and drops zeros."""
    random = np.random.default_rng(0)
    model.set_weights([random.uniform(0.5, 1, value.shape).astype(np.float32) for value in model.get_weights()])
    return model


def network(inputs: Any, *stack: Any) -> Any:
    x = inputs
    for layer in stack:
        x = layer(x)
    return set_random_weights(keras.Model(inputs, x, name="net"))


def attend() -> Any:
    x = keras.Input((6, 16))
    y = layers.LayerNormalization(name="norm")(layers.MultiHeadAttention(4, 4, name="attention")(x, x) + x)
    return set_random_weights(keras.Model(x, layers.Dense(3, activation="gelu", name="out")(y), name="net"))


def image() -> Any:
    stack = [
        *(layers.Conv2D(8, 3, name="conv"), layers.BatchNormalization(name="norm"), layers.ReLU(name="relu")),
        *(layers.DepthwiseConv2D(3, name="depthwise"), layers.Flatten(name="flatten"), layers.Dense(10, name="out")),
    ]
    return network(keras.Input((16, 16, 3)), *stack)


NETWORKS: dict[str, Callable[[], Any]] = {
    "image": image,
    "lstm": lambda: network(
        keras.Input(batch_shape=(2, 7, 6)), layers.LSTM(5, name="lstm"), layers.Dense(4, name="out")
    ),
    "gru": lambda: network(keras.Input(batch_shape=(2, 7, 6)), layers.GRU(5, name="gru"), layers.Dense(4, name="out")),
    "both ways": lambda: network(keras.Input(batch_shape=(2, 7, 6)), layers.Bidirectional(layers.LSTM(5), name="both")),
    "attention": attend,
    "words": lambda: network(
        keras.Input((20,)),
        *(layers.Embedding(50, 8, name="words"), layers.Conv1D(6, 3, padding="causal", name="conv")),
        *(layers.MaxPooling1D(2, name="pool"), layers.Flatten(name="flatten"), layers.Dense(3, name="out")),
    ),
    "transposed": lambda: network(
        keras.Input((8, 8, 3)),
        *(
            layers.Conv2DTranspose(5, 3, strides=2, name="up"),
            layers.UpSampling2D(interpolation="bilinear", name="big"),
        ),
        *(layers.SeparableConv2D(6, 3, name="separable"), layers.Conv2D(6, 3, groups=2, name="grouped")),
        *(layers.PReLU(name="prelu"), layers.Conv2D(4, 3, dilation_rate=2, name="dilated")),
    ),
}
SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", [name if name == "lstm" else pytest.param(name, marks=SLOW) for name in NETWORKS])
def test_a_conversion_has_the_same_macs_and_weights(name: str) -> None:
    """A loop of TensorFlow counts as often as it runs; only a batch norm leaves a bias alone of its four values."""
    net = NETWORKS[name]()
    model = convert(net)
    batch = net.inputs[0].shape[0] or 1
    x = np.zeros((batch, *net.inputs[0].shape[1:]), np.float32)
    source, converted = profile(net, x, metrics=METRICS), profile(model, x, metrics=METRICS)
    assert converted["macs"] == source["macs"]
    assert converted.status("macs").completeness.value == converted.status("flops").completeness.value == "complete"
    # the norm of 8 channels; biases of zeros of 5 separable channels, and of 4 dilated ones, whose own is added later
    added = {"image": -32, "transposed": 5 + 4}.get(name, 0)
    assert converted["total_params"] == source["total_params"] + added
    assert BACKEND.model_name(model) == "net"


@SLOW
def test_layers_are_those_of_keras() -> None:
    """The batch norm and the activation are in the convolution; the flattening has an operator."""
    trace = BACKEND.trace(model := convert(image()), BACKEND.example_inputs(model))
    assert [(layer.path, layer.type) for layer in trace.layers] == [
        ("", "net"),
        ("conv", "CONV_2D"),
        ("depthwise", "DEPTHWISE_CONV_2D"),
        ("flatten", "RESHAPE"),
        ("out", "FULLY_CONNECTED"),
    ]


def calibrate() -> Any:
    random = np.random.default_rng(0)
    for _ in range(3):
        yield [random.uniform(size=(1, 16, 16, 3)).astype(np.float32)]


@SLOW
@pytest.mark.parametrize("kind", ["float16", "dynamic", "int8", "int16 and int8"])
@pytest.mark.filterwarnings("ignore:Statistics for quantized inputs")
def test_quantized_files_have_the_same_macs_at_fewer_bytes(kind: str) -> None:
    """8 * 27 + 8 * 9 + 10 * 1152 weights; biases of 26 stay floats, or become integers of four or eight bytes."""
    net, sets = image(), tf.lite.OpsSet
    settings: dict[str, Any] = {"optimizations": [tf.lite.Optimize.DEFAULT]}
    if kind == "float16":
        settings["target_spec"] = tf.lite.TargetSpec(supported_types=[tf.float16])
    elif kind != "dynamic":
        wide = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        chosen = sets.TFLITE_BUILTINS_INT8 if kind == "int8" else wide
        settings["target_spec"] = tf.lite.TargetSpec(supported_ops=[chosen])
        settings["representative_dataset"] = calibrate
    model = convert(net, **settings)
    trace = BACKEND.trace(model, BACKEND.example_inputs(model))
    assert trace.failure is None
    assert trace.missing == ()
    assert trace.macs == profile(net, np.zeros((1, 16, 16, 3), np.float32), metrics="macs")["macs"]
    weights, biases = 8 * 27 + 8 * 9 + 10 * 1152, 8 + 8 + 10
    assert trace.total_params == weights + biases
    wide_bias = {"float16": 2, "dynamic": 4, "int8": 4, "int16 and int8": 8}[kind]
    by_width = sum(weight.bytes for weight in trace.parameters)
    unquantized = {"dynamic": 3 * (8 * 27 + 8 * 9)}.get(kind, 0)  # small weights stay floats
    assert by_width == (2 if kind == "float16" else 1) * weights + unquantized + wide_bias * biases
    report = profile(model, metrics=["execution_time"], num_iters=2)
    assert report["execution_time"]
