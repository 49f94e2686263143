"""Quantized Keras layers: as many parameters as before, in every mode of every layer that Keras can quantize."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from slow_ones import slow_ones

from profilerkit import profile

layers = keras.layers

#: Layers that can be quantized, the shape and dtype of a sample, and the parameters by hand.
LAYERS: dict[str, tuple[Callable[..., Any], tuple[int, ...], str, int]] = {
    "Dense": (lambda **policy: layers.Dense(24, **policy), (8,), "float32", 8 * 24 + 24),
    "EinsumDense": (
        lambda **policy: layers.EinsumDense("abc,cd->abd", output_shape=(None, 24), bias_axes="d", **policy),
        (4, 8),
        "float32",
        8 * 24 + 24,
    ),
    "Embedding": (lambda **policy: layers.Embedding(10, 8, **policy), (4,), "int32", 10 * 8),
    "ReversibleEmbedding": (
        lambda **policy: layers.ReversibleEmbedding(10, 8, tie_weights=False, **policy),
        (4,),
        "int32",
        10 * 8 + 8 * 10,
    ),
}
#: The policy of each mode, as Keras writes it.
POLICIES = {
    "int8": "int8_from_float32",
    "int4": "int4/4_from_float32",
    "float8": "float8_from_float32",
    "gptq": "gptq/4/4_from_float32",
    "awq": "awq/4/4_from_float32",
}


def test_every_mode_and_layer_is_tried() -> None:
    """A new mode or layer of Keras is missing above."""
    from keras.src.dtype_policies.dtype_policy import QUANTIZATION_MODES

    assert set(QUANTIZATION_MODES) <= POLICIES.keys()
    base = layers.Layer.quantized_build
    quantized = {name for name, kind in vars(layers).items() if getattr(kind, "quantized_build", base) is not base}
    assert quantized == LAYERS.keys() & vars(layers).keys()


def _is_offered(kind: str, mode: str) -> bool:
    known = getattr(layers, kind, None)
    return known is not None and hasattr(known, f"_{mode}_build")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mode", slow_ones(POLICIES, ["gptq", "awq"]))
@pytest.mark.parametrize("kind", LAYERS)
def test_quantization_does_not_change_the_parameters(kind: str, mode: str) -> None:
    if not _is_offered(kind, mode):
        pytest.skip(f"this Keras has no {mode} of {kind}")
    make, sample, dtype, parameters = LAYERS[kind]
    inputs = tf.zeros((1, *sample), dtype)
    model = keras.Sequential([keras.Input(sample, dtype=dtype), make(dtype=POLICIES[mode])])
    assert model.layers[-1].quantization_mode == mode
    report = profile(model, inputs, metrics=["total_params", "trainable_params", "model_size"])
    assert report["total_params"] == parameters
    assert report["trainable_params"] <= parameters
    stored = sum(math.prod(v.shape) * tf.as_dtype(v.dtype).size for v in model.weights)
    assert report["model_size"] == stored  # with scales, zero points and histories


@pytest.mark.parametrize("mode", ["int8", "float8"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_saved_model_and_a_function_do_not_count_scales(mode: str, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(24)])
    model.quantize(mode)
    tf.saved_model.save(model, tmp_path / "saved")
    saved = tf.saved_model.load(tmp_path / "saved")
    x = tf.zeros((1, 6))
    for subject in (saved, tf.function(model)):
        assert profile(subject, x, metrics="total_params")["total_params"] == 6 * 24 + 24


def test_a_layer_of_the_users_keeps_its_weights() -> None:
    """A weight named like a scale, in a layer that nothing has quantized, is a parameter."""

    class Scaled(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],), name="kernel_scale")

        def call(self, x: Any) -> Any:
            return x * self.scale

    model = keras.Sequential([keras.Input((6,)), Scaled()])
    assert profile(model, tf.zeros((1, 6)), metrics="total_params")["total_params"] == 6
