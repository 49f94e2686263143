"""The layer table of Keras models: dtypes, weights, calls, and layers left out."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from profilerkit import profile
from profilerkit.render.layer_grids import layer_grid

X = np.ones((2, 8), "float32")


def model() -> Any:
    shared = keras.layers.Dense(8, use_bias=False, name="shared")
    x = keras.Input((8,))
    hidden = keras.layers.BatchNormalization(name="norm")(shared(shared(x)))
    return keras.Model(x, keras.layers.Dense(3, name="head", dtype="float16")(hidden))


def test_weights_are_counted_by_dtype_and_by_whether_they_are_trained() -> None:
    network = model()
    network.get_layer("head").trainable = False
    trace = profile(network, X, metrics=["trace"])["trace"]
    root, head = trace.table[""], trace.table["head"]
    # Keras has the mean and variance of a normalisation among its weights.
    assert (root["params"], root["trainable_params"]) == (64 + 32 + 27, 64 + 16)
    assert root["params_by_dtype"] == {"float32": 64 + 32, "float16": 27}
    assert root["weight_bytes"] == trace.size_bytes == 4 * (64 + 32) + 2 * 27
    assert (head["own_params"], head["trainable_params"], head["params_share"]) == (27, 0, 27 / 123)
    # Keras 3.6 makes the cast a step of its own, before the layer.
    casts_before = any(type(step).__name__ == "Cast" for step in network.operations)
    given = "float16" if casts_before else "float32"
    assert (head["input_dtypes"], head["output_dtypes"]) == ((given,), ("float16",))
    assert trace.layer("head").parameters[0].shape == (8, 3)


def test_calls_of_a_shared_layer_have_a_row_each() -> None:
    trace = profile(model(), X, metrics=["trace"])["trace"]
    rows = [(row["path"], row["call"], row["macs"], row["own_macs"]) for row in trace.call_table]
    assert rows == [
        ("", 0, 2 * (64 + 64 + 24), 0),
        ("shared", 0, 2 * 64, 2 * 64),
        ("shared", 1, 2 * 64, 2 * 64),
        ("norm", 0, 0, 0),
        ("head", 0, 2 * 24, 2 * 24),
    ]
    assert sum(row["own_flops"] for row in trace.call_table) == trace.flops


def test_layers_are_left_out_of_a_keras_model() -> None:
    report = profile(model(), X, ignore=[keras.layers.BatchNormalization, "shared"], metrics=["macs", "total_params"])
    assert (report["macs"], report["total_params"]) == (2 * 24, 27)
    assert [row["path"] for row in report.layers or ()] == ["", "head"]
    assert any("left out by ignore=: 2 layers" in note for note in report.notes)


class Mine(keras.layers.Layer):  # type: ignore[misc]
    """A layer of the user's, whose attributes may be anything."""

    @property
    def units(self) -> int:
        raise AssertionError("code of the user's ran")

    def call(self, x: Any) -> Any:
        return x


def test_layers_of_keras_have_their_settings() -> None:
    conv = keras.layers.Conv2D(4, (3, 5), strides=2, padding="same")
    network = keras.Sequential([keras.Input((8, 8, 3)), conv, Mine(), keras.layers.Flatten(), keras.layers.Dense(2)])
    table = profile(network, metrics=["macs"]).layers
    assert table is not None
    written = [row["configuration"] for row in table]
    assert written[1].startswith("filters=4, kernel_size=(3, 5), strides=(2, 2), dilation_rate=(1, 1), groups=1")
    assert written[2:] == ["", "", "units=2"]
    assert "Conv2D [1, 4, 4, 4]" in network_text(table)


def network_text(table: Any) -> str:
    return "\n".join(map(" ".join, layer_grid(table).rows))
