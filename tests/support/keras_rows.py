"""Keras networks and their layer tables as JSON, on the framework that KERAS_BACKEND names: ``python keras_rows.py``.

Keras' framework is fixed when it is imported, so the tables of several frameworks come from processes of their own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from profilerkit import profile

layers = keras.layers
BATCH = 2
STEPS, WIDTH, WORDS = 6, 8, 50


def stack_layers(shape: tuple[int, ...], *inside: Any, dtype: str = "float32") -> Any:
    return keras.Sequential([keras.Input(shape, dtype=dtype), *inside], name="net")


def dense() -> Any:
    return stack_layers(
        (12,),
        layers.Dense(16, activation="relu", name="first"),
        layers.Dropout(0.5, name="dropout"),
        layers.Dense(8, activation="tanh", use_bias=False, name="second"),
        layers.Dense(4, activation="softmax", name="third"),
    )


def convolutions() -> Any:
    return stack_layers(
        (12, 12, 3),
        layers.Conv2D(8, 3, padding="same", use_bias=False, name="conv"),
        layers.BatchNormalization(name="norm"),
        layers.ReLU(name="relu"),
        layers.MaxPooling2D(2, name="maximum"),
        layers.Conv2D(6, 3, strides=2, name="strided"),
        layers.ReLU(max_value=6.0, name="relu6"),
        layers.AveragePooling2D(2, name="mean"),
        layers.Conv2DTranspose(4, 3, strides=2, padding="same", name="transposed"),
        layers.UpSampling2D(2, name="upsampling"),
        layers.GlobalMaxPooling2D(name="pool"),
        layers.Dense(5, name="fc"),
    )


def depthwise() -> Any:
    return stack_layers(
        (12, 12, 4),
        layers.DepthwiseConv2D(3, strides=2, padding="same", use_bias=False, name="depthwise"),
        layers.BatchNormalization(scale=False, name="norm"),
        layers.SeparableConv2D(6, 3, padding="same", name="separable"),
        layers.Conv2D(6, 3, groups=2, padding="same", name="grouped"),
        layers.LeakyReLU(name="leaky"),
        layers.GlobalAveragePooling2D(name="pool"),
    )


def lstm() -> Any:
    return stack_layers(
        (STEPS, WIDTH),
        layers.LSTM(5, return_sequences=True, name="first"),
        layers.LSTM(4, use_bias=False, name="last"),
        layers.Dense(3, name="fc"),
    )


def gru() -> Any:
    return stack_layers(
        (STEPS, WIDTH),
        layers.Bidirectional(layers.GRU(5, return_sequences=True), name="both"),
        layers.GRU(4, reset_after=False, name="last"),
    )


def simple_rnn() -> Any:
    return stack_layers((STEPS, WIDTH), layers.SimpleRNN(5, name="simple"))


def attention() -> Any:
    x = keras.Input((STEPS, WIDTH))
    normed = layers.LayerNormalization(name="norm")(x)
    y = layers.Add(name="sum")([x, layers.MultiHeadAttention(2, 4, name="attention")(normed, normed)])
    wide = layers.Dense(16, activation="gelu", name="wide")(layers.LayerNormalization(name="second_norm")(y))
    return keras.Model(x, layers.Add(name="second_sum")([y, layers.Dense(WIDTH, name="narrow")(wide)]), name="net")


def causal() -> Any:
    x = keras.Input((STEPS, WIDTH))
    y = layers.MultiHeadAttention(2, 4, name="attention")(x, x, use_causal_mask=True)
    return keras.Model(x, layers.GroupQueryAttention(4, 4, 2, name="grouped")(y, y), name="net")


def embedding() -> Any:
    return stack_layers(
        (STEPS,),
        layers.Embedding(WORDS, WIDTH, name="words"),
        layers.GlobalAveragePooling1D(name="mean"),
        layers.Dense(3, activation="sigmoid", name="fc"),
        dtype="int32",
    )


def masked() -> Any:
    return stack_layers(
        (STEPS,),
        layers.Embedding(WORDS, WIDTH, mask_zero=True, name="words"),
        layers.LSTM(4, name="memory"),
        dtype="int32",
    )


def normalizations() -> Any:
    return stack_layers(
        (6, 6, 8),
        layers.GroupNormalization(2, name="group"),
        layers.LayerNormalization(name="layer"),
        layers.RMSNormalization(name="rms"),
        layers.PReLU(name="prelu"),
        layers.UnitNormalization(name="unit"),
        layers.Rescaling(0.5, 1.0, name="rescaling"),
    )


def activations() -> Any:
    names = [
        *("elu", "gelu", "hard_sigmoid", "leaky_relu", "log_softmax", "mish", "relu6", "selu", "sigmoid", "silu"),
        *("softmax", "softplus", "softsign", "tanh"),
    ]
    return stack_layers((12,), *(layers.Activation(name, name=name) for name in names))


class Block(layers.Layer):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(WIDTH)
        self.norm = layers.BatchNormalization()

    def call(self, x: Any) -> Any:
        return self.norm(self.dense(x))


class Nested(keras.Model):  # type: ignore[misc]
    """A shared block, layers in a list, a weight of its own and a functional model inside."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.heads = [layers.Dense(3), layers.Dense(2, use_bias=False)]
        self.scale = self.add_weight(shape=(WIDTH,), name="scale")
        inputs = keras.Input((WIDTH,))
        self.inner = keras.Model(inputs, layers.Dense(WIDTH, name="only")(inputs))

    def call(self, x: Any) -> Any:
        x = self.block(self.block(x)) * self.scale
        return [head(self.inner(x)) for head in self.heads]


def nested() -> Any:
    model = Nested()
    model(np.ones((1, WIDTH), "float32"))
    return model


def shared() -> Any:
    layer, x = layers.Dense(WIDTH, name="shared"), keras.Input((WIDTH,))
    return keras.Model(x, layer(layers.ReLU(name="relu")(layer(x))), name="net")


def frozen() -> Any:
    model = stack_layers((8, 8, 3), layers.Conv2D(4, 3, name="conv"), layers.BatchNormalization(name="norm"))
    model.get_layer("norm").trainable = False
    return model


#: Each network by its name, with the shape of one sample of its input and the dtype.
NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...], str]] = {
    "dense": (dense, (12,), "float32"),
    "convolutions": (convolutions, (12, 12, 3), "float32"),
    "depthwise": (depthwise, (12, 12, 4), "float32"),
    "lstm": (lstm, (STEPS, WIDTH), "float32"),
    "gru": (gru, (STEPS, WIDTH), "float32"),
    "simple rnn": (simple_rnn, (STEPS, WIDTH), "float32"),
    "attention": (attention, (STEPS, WIDTH), "float32"),
    "causal": (causal, (STEPS, WIDTH), "float32"),
    "embedding": (embedding, (STEPS,), "int32"),
    "masked": (masked, (STEPS,), "int32"),
    "normalizations": (normalizations, (6, 6, 8), "float32"),
    "activations": (activations, (12,), "float32"),
    "nested": (nested, (WIDTH,), "float32"),
    "shared": (shared, (WIDTH,), "float32"),
    "frozen": (frozen, (8, 8, 3), "float32"),
}
COLUMNS = ("path", "type", "params", "macs", "flops")


def tables() -> dict[str, Any]:
    """Return the backend, the notes on what is missing, the totals and the layer table of each network."""
    result: dict[str, Any] = {}
    for name, (build, shape, dtype) in NETWORKS.items():
        inputs = np.ones((BATCH, *shape), dtype)
        report = profile(build(), inputs, metrics=["total_params", "trainable_params", "model_size", "macs", "flops"])
        result[name] = {
            "backend": report.backend,
            "complete": all(record.completeness.value == "complete" for record in report.statuses.values()),
            "totals": [report[key] for key in report],
            "rows": [[row[column] for column in COLUMNS] for row in report.layers or ()],
        }
    return result


if __name__ == "__main__":
    json.dump(tables(), sys.stdout)
