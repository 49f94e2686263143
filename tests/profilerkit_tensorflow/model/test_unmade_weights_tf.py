"""Models that are not built: those that have all their weights run; weights that are missing are never counted as 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from small import BACKEND, ones, trace

from profilerkit import Completeness, ModelFailedError, ModelInputs, WithoutValuesError, profile
from profilerkit.backend import RunOptions
from profilerkit_tensorflow.evaluation import get_accuracy


class Around(keras.Model):  # type: ignore[misc]
    """Has all its weights in a model inside."""

    def __init__(self, inside: Any) -> None:
        super().__init__()
        self.inside = inside

    def call(self, x: Any) -> Any:
        """Pass it on."""
        return self.inside(x)


class Doubling(keras.layers.Layer):  # type: ignore[misc]
    """Needs no weights."""

    def call(self, x: Any) -> Any:
        """Double."""
        return 2.0 * x


def identity() -> Any:
    """Return a built model that hands on what it gets."""
    dense = keras.layers.Dense(2, use_bias=False, kernel_initializer="identity")
    return keras.Sequential([keras.Input((2,)), dense])


def legacy_around() -> Any:
    """Return a model of tf_keras that was never called, around a built one."""
    tf_keras = pytest.importorskip("tf_keras")

    class LegacyAround(tf_keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inside = tf_keras.Sequential([tf_keras.Input((2,)), tf_keras.layers.Dense(2)])

        def call(self, x: Any) -> Any:
            return self.inside(x)

    return LegacyAround()


@pytest.mark.parametrize("mode", ["graph", "eager", "xla"])
@pytest.mark.parametrize("make", [lambda: Around(identity()), Doubling, legacy_around])
def test_a_model_that_has_all_its_weights_is_run_and_stays_unbuilt(make: Any, mode: str) -> None:
    model = make()
    with BACKEND.run(model, ModelInputs(ones(3, 2)), RunOptions(mode=mode)) as run:
        run()
    assert not model.built


@pytest.mark.parametrize("make", [lambda: Around(identity()), Doubling, legacy_around])
def test_its_layers_are_timed(make: Any) -> None:
    model = make()
    times = BACKEND.layer_times(model, ModelInputs(ones(3, 2)), passes=1, backward=False)
    assert times[0].path == ""
    assert not model.built


def test_it_is_evaluated() -> None:
    batch = (np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], "float32"), np.array([0, 1, 0, 0]))
    model = Around(identity())
    assert get_accuracy(model, [batch]) == 75.0
    assert not model.built


def test_one_around_an_unbuilt_model_is_refused_and_stays_so() -> None:
    model = Around(keras.Sequential([keras.layers.Dense(2)]))
    with pytest.raises(WithoutValuesError, match="is not built"), BACKEND.run(model, ModelInputs(ones(3, 2))):
        pass
    with pytest.raises(WithoutValuesError, match="is not built"):
        BACKEND.layer_times(model, ModelInputs(ones(3, 2)))
    with pytest.raises(WithoutValuesError, match="is not built"):
        get_accuracy(model, [(np.ones((3, 2), "float32"), np.zeros(3, int))])
    assert not model.built and not model.inside.built and model.variables == []


def test_one_of_tf_keras_is_refused() -> None:
    tf_keras = pytest.importorskip("tf_keras")
    model = tf_keras.Sequential([tf_keras.layers.Dense(2)])
    with pytest.raises(WithoutValuesError, match="is not built"), BACKEND.run(model, ModelInputs(ones(3, 2))):
        pass
    assert not model.built


class Holding(tf.Module):  # type: ignore[misc]
    """Holds a Keras layer beside a variable."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.scale = tf.Variable(ones(7))
        self.layer = layer

    def __call__(self, x: Any) -> Any:
        """Call the layer."""
        return self.layer(x)


def test_the_unmade_weights_of_a_layer_inside_a_module_are_missing() -> None:
    module = Holding(keras.Sequential([keras.layers.Dense(3, name="inner")]))
    found = profile(module, metrics=["total_params"]).status("total_params")
    assert (found.completeness, found.value) == (Completeness.PARTIAL, 7)
    assert "the weights of inner, which the first call makes" in found.missing[0]
    module(ones(2, 4))
    assert profile(module, metrics=["total_params"], strict=True)["total_params"] == 7 + 4 * 3 + 3


def test_the_unmade_weights_of_a_layer_that_a_function_names_are_missing() -> None:
    layer = keras.layers.Dense(3, name="inner")

    @tf.function
    def function(x):  # type: ignore[no-untyped-def]  # TensorFlow reads annotations as signatures
        return layer(x)

    found = profile(function, metrics=["total_params"]).status("total_params")
    assert (found.completeness, found.value) == (Completeness.FAILED, None)
    assert "the weights of inner, which the first call makes" in found.missing[0]


def test_the_states_of_an_exported_lstm_are_no_parameters(tmp_path: Path) -> None:
    inputs = keras.Input((6, 4), batch_size=2)
    model = keras.Model(inputs, keras.layers.LSTM(5, stateful=True)(inputs))
    model.export(tmp_path, verbose=False)
    found = trace(tf.saved_model.load(tmp_path), ones(2, 6, 4))
    assert found.total_params == found.trainable_params == 4 * 5 * (4 + 5 + 1)
    assert found.memory.weight_bytes >= (200 + 2 * 2 * 5) * 4


@pytest.mark.slow
def test_the_states_of_a_saved_gru_of_tf_keras_are_no_parameters(tmp_path: Path) -> None:
    tf_keras = pytest.importorskip("tf_keras")
    inputs = tf_keras.Input((6, 4), batch_size=2)
    model = tf_keras.Model(inputs, tf_keras.layers.GRU(5, stateful=True)(inputs))
    tf.saved_model.save(model, str(tmp_path))
    found = trace(tf.saved_model.load(str(tmp_path)), ones(2, 6, 4))
    assert found.total_params == found.trainable_params == 3 * 5 * (4 + 5 + 2)


def test_what_a_model_raises_while_it_is_evaluated_is_said_in_a_line() -> None:
    with pytest.raises(ModelFailedError) as raised:
        get_accuracy(Around(identity()), [(np.ones((3, 5), "float32"), np.zeros(3, int))])
    said = str(raised.value)
    assert "\x1b" not in said and "\n" not in said and "Arguments received" not in said
    assert "it was called with ModelInputs(EagerTensor(3, 5))" in said
