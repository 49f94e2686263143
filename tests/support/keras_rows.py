"""Keras networks and their layer tables as JSON, on the framework that KERAS_BACKEND names: ``python keras_rows.py``.

Keras' framework is fixed when it is imported, so the tables of several frameworks come from processes of their own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import keras_networks
import numpy as np

from profilerkit import ModelInputs, profile

layers = keras.layers
BATCH, WIDTH = 2, 8


def stack_layers(shape: tuple[int, ...], *inside: Any, dtype: str = "float32") -> Any:
    return keras.Sequential([keras.Input(shape, BATCH, dtype=dtype), *inside], name="net")


def masked() -> Any:
    return stack_layers((6,), layers.Embedding(50, WIDTH, mask_zero=True), layers.LSTM(4), dtype="int32")


def normalizations() -> Any:
    return stack_layers(
        (6, 6, 8),
        layers.GroupNormalization(2),
        layers.LayerNormalization(),
        layers.RMSNormalization(),
        layers.PReLU(),
        layers.UnitNormalization(),
        layers.Rescaling(0.5, 1.0),
    )


def activations() -> Any:
    names = [
        *("elu", "gelu", "hard_sigmoid", "leaky_relu", "log_softmax", "mish", "relu6", "selu", "sigmoid", "silu"),
        *("softmax", "softplus", "softsign", "tanh"),
    ]
    return stack_layers((12,), *(layers.Activation(name, name=name) for name in names))


def frozen() -> Any:
    model = stack_layers((8, 8, 3), layers.Conv2D(4, 3), layers.BatchNormalization(scale=False, name="norm"))
    model.get_layer("norm").trainable = False
    return model


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
    model(np.ones((BATCH, WIDTH), "float32"))
    return model


#: Of the networks that converters get, one of each kind.
NAMES = (
    *("LeNet-5", "ResNeXt", "depthwise and separable", "squeeze and excite", "ConvNeXt", "U-Net", "feature pyramid"),
    *("SimpleRNN", "LSTM", "GRU", "GRU, reset before", "GRU, both ways", "ConvLSTM"),
    *("TextCNN", "encoder and decoder", "grouped queries", "wide and deep"),
)
NETWORKS: dict[str, Callable[[], Any]] = {
    **{name: partial(keras_networks.build, name) for name in NAMES},
    "masked": masked,
    "normalizations": normalizations,
    "activations": activations,
    "frozen": frozen,
    "nested": nested,
}
COLUMNS = ("path", "type", "params", "macs", "flops")


def make_inputs(model: Any) -> ModelInputs:
    """Return ones of the sizes that a model declares; one of a class of its own declares none."""
    if isinstance(model, Nested):
        return ModelInputs(np.ones((BATCH, WIDTH), "float32"))
    return ModelInputs(*(np.ones(tensor.shape, tensor.dtype) for tensor in model.inputs))


def tables() -> dict[str, Any]:
    """Return the backend, the notes on what is missing, the totals and the layer table of each network."""
    result: dict[str, Any] = {}
    for name, build in NETWORKS.items():
        model = build()
        metrics = ["total_params", "trainable_params", "model_size", "macs", "flops"]
        report = profile(model, make_inputs(model), metrics=metrics)
        result[name] = {
            "backend": report.backend,
            "complete": all(record.completeness.value == "complete" for record in report.statuses.values()),
            "totals": [report[key] for key in report],
            "rows": [[row[column] for column in COLUMNS] for row in report.layers or ()],
        }
    return result


if __name__ == "__main__":
    json.dump(tables(), sys.stdout)
