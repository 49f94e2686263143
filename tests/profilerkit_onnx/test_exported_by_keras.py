"""What Keras exports to ONNX with TensorFlow: MACs and layers are those of the source model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("tf2onnx")
pytest.importorskip("tensorflow")
import keras
import numpy as np
import onnx

if keras.backend.backend() != "tensorflow":
    pytest.skip("Keras runs on another framework here", allow_module_level=True)

from keras import layers

from profilerkit import ModelInputs, ModelTrace
from profilerkit_onnx.backend import OnnxBackend
from profilerkit_tensorflow.backend import TFBackend

pytestmark = pytest.mark.slow
BACKEND, SOURCE = OnnxBackend(), TFBackend()


def image_classifier() -> Any:
    """The converter folds the batch norm into the convolution before it, and the model has no row for it."""
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(8, 3, padding="same", name="stem"),
            layers.BatchNormalization(name="norm"),
            layers.ReLU(name="act"),
            layers.DepthwiseConv2D(3, name="depthwise"),
            layers.SeparableConv2D(6, 3, name="separable"),
            layers.Conv2DTranspose(4, 3, name="up"),
            layers.GlobalAveragePooling2D(name="pool"),
            layers.Dense(10, activation="softmax", name="head"),
        ]
    )


def attention() -> Any:
    x = keras.Input((6, 16))
    y = layers.LayerNormalization(name="norm")(x)
    y = layers.MultiHeadAttention(2, 8, name="attention")(y, y)
    y = layers.Add(name="sum")([x, y])
    inner = keras.Sequential([keras.Input((6, 16)), layers.Dense(32, "relu"), layers.Dense(16)], name="inner")
    return keras.Model(x, layers.Dense(3, name="head")(inner(y)), name="block")


def recurrent() -> Any:
    """A GRU becomes a loop whose condition counts the steps; LSTMs become operators without a scope."""
    x = keras.Input((6, 8))
    y = layers.GRU(5, return_sequences=True, name="gru")(x)
    y = layers.LSTM(7, return_sequences=True, name="lstm")(y)
    y = layers.LSTM(4, return_sequences=True, name="second")(y)
    y = layers.SimpleRNN(4, name="simple")(y)
    return keras.Model(x, layers.Dense(3, name="head")(y))


def shared() -> Any:
    """One layer called twice, and layers whose names end in numbers."""
    x = keras.Input((8,))
    dense = layers.Dense(8, name="dense_7")
    y = layers.ReLU(name="act")(dense(x))
    return keras.Model(x, layers.Dense(4, name="dense")(dense(y)), name="model_3")


def traces(build: Callable[[], Any], folder: Path) -> tuple[ModelTrace, ModelTrace]:
    """Return the trace of a model, and that of its export."""
    model = build()
    x = np.ones((2, *model.input_shape[1:]), np.float32)
    model(x)
    path = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.export(path, format="onnx", verbose=False)
    return SOURCE.trace(model, ModelInputs(x)), BACKEND.trace(onnx.load(path), ModelInputs(x))


@pytest.fixture(autouse=True)
def converters_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give back what the converter writes into the environment when it is imported."""
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1"))


@pytest.mark.parametrize("build", [image_classifier, attention, recurrent, shared])
def test_macs_and_layers_are_those_of_the_source_model(build: Callable[[], Any], tmp_path: Path) -> None:
    expected, trace = traces(build, tmp_path)
    assert (trace.failure, trace.missing, trace.choices) == (None, (), ())
    assert trace.macs == expected.macs > 0
    costly = {row["path"]: (row["calls"], row["macs"]) for row in expected.table if row["macs"]}
    assert {row["path"]: (row["calls"], row["macs"]) for row in trace.table if row["macs"]} == costly
    assert {row["path"] for row in trace.table} <= {row["path"] for row in expected.table}


def test_an_operator_that_the_converter_does_not_know_is_named(tmp_path: Path) -> None:
    """Keras writes a GELU with TensorFlow's Erfc; the converter leaves it in the file, which no runtime takes."""

    def build() -> Any:
        return keras.Sequential([keras.Input((5,)), layers.Dense(4, name="first"), layers.Activation("gelu")])

    _, trace = traces(build, tmp_path)
    assert "Erfc (1 call)" in trace.missing
    assert trace.macs == 2 * 5 * 4
