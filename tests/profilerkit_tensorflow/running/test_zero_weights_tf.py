"""Zeros among the variables of models of TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from profilerkit import WithoutValuesError, profile
from profilerkit_tensorflow import TFBackend

BACKEND = TFBackend()


def make_pruned(kinds: Any) -> Any:
    """A dense layer of 8 to 4 whose kernel has 24 zeros; its bias has 4 of them."""
    model = kinds.Sequential([kinds.layers.Input((8,)), kinds.layers.Dense(4)])
    kernel = np.zeros((8, 4), np.float32)
    kernel[:2] = 1
    model.layers[-1].set_weights([kernel, np.zeros(4, np.float32)])
    return model


@pytest.mark.parametrize("name", ["keras", "tf_keras"])
def test_zeros_of_a_keras_model(name: str) -> None:
    model = make_pruned(pytest.importorskip(name))
    assert BACKEND.zero_weights(model) == (24 + 4, 32 + 4)
    report = profile(model, input_shape=(8,), metrics=["sparsity", "effective_macs", "measured_memory"])
    assert report["sparsity"] == 28 / 36
    for key, said in {"effective_macs": "nonzero weights", "measured_memory": "does not measure memory"}.items():
        assert said in report.status(key).missing[0]


def test_integers_are_no_weights_that_could_be_pruned() -> None:
    module = tf.Module()
    module.table, module.scale = tf.Variable([0, 0, 1]), tf.Variable([0.0, 1.0])
    assert BACKEND.zero_weights(module) == (1, 2)


def test_a_model_that_is_not_built_has_no_values() -> None:
    import keras

    with pytest.raises(WithoutValuesError, match="not built"):
        BACKEND.zero_weights(keras.Sequential([keras.layers.Dense(4)]))


@pytest.mark.parametrize(("mode", "elements"), [("int8", 24), ("float8", 8 * 24 + 24)])
def test_scales_of_quantized_layers_are_no_weights(mode: str, elements: int) -> None:
    """A bias of 24 zeros; a kernel of 8 x 24 floats in the mode that keeps it as such, with histories beside it."""
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(24, kernel_initializer="ones")])
    model.layers[-1].quantize(mode)
    assert BACKEND.zero_weights(model) == (24, elements)
