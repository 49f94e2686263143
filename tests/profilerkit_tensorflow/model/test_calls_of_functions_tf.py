"""``call=``: functions over Keras models and modules, as graphs and eagerly."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from profilerkit import InputError, ModelInputs, profile
from profilerkit_tensorflow import TFBackend

LINEAR = 2 * 8 * 8  # MACs of an 8 x 8 layer for two samples
X = np.ones((2, 8), "float32")


def functional() -> Any:
    x = keras.Input((8,))
    code = keras.layers.Dense(8, use_bias=False, name="encoder")(x)
    return keras.Model(x, keras.layers.Dense(3, use_bias=False, name="decoder")(code))


class Coder(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.encoder = tf.Variable(tf.ones((8, 8)))
        self.decoder = tf.Variable(tf.ones((8, 3)))

    def encode(self, x: Any) -> Any:
        return x @ self.encoder

    def __call__(self, x: Any) -> Any:
        return self.encode(x) @ self.decoder


def encode(model: Any, x: Any) -> Any:
    return model.get_layer("encoder")(x)


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_function_over_a_keras_model_is_counted_and_timed(mode: str) -> None:
    model = functional()
    before = [variable.numpy().tolist() for variable in model.variables]
    report = profile(model, X, call=encode, mode=mode, batch_size=4, num_iters=6, warmup=0, leave_out="layer_times")
    assert (report["macs"], report["total_params"]) == (2 * LINEAR, 8 * 8 + 8 * 3)
    assert report.inputs.endswith(" given to encode")
    assert report["execution_time"].median > 0
    assert [variable.numpy().tolist() for variable in model.variables] == before
    calls = {row["path"]: row["calls"] for row in report.layers or ()}
    assert (calls["encoder"], calls["decoder"]) == (1, 0)


def test_a_function_that_calls_the_model_several_times() -> None:
    def twice(model: Any, x: Any, *, more: Any) -> Any:
        return model(x) + model(more)

    report = profile(functional(), ModelInputs(X, more=X), call=twice, metrics=["macs", "flops"])
    once = LINEAR + 2 * 8 * 3
    assert (report["macs"], report["flops"]) == (2 * once, 2 * 2 * once + 2 * 3)


def test_a_method_of_a_module() -> None:
    report = profile(Coder(), tf.constant(X), call=lambda model, x: model.encode(x), metrics=["macs", "execution_time"])
    assert report["macs"] == LINEAR
    assert report["execution_time"].median > 0


def test_a_function_that_looks_at_values_is_watched_while_it_runs() -> None:
    def until_large(model: Any, x: Any) -> Any:
        while float(np.asarray(tf.reduce_sum(x))) < 1000:  # 16, 128, 1024
            x = model.encode(x)
        return x

    report = profile(Coder(), tf.constant(X), call=until_large, metrics=["macs"])
    assert report["macs"] == 2 * LINEAR
    assert any("counted in one eager run" in note for note in report.notes)


def test_an_unbuilt_model_that_a_function_calls_is_counted_and_stays_unbuilt() -> None:
    model = keras.Sequential([keras.layers.Dense(8, use_bias=False), keras.layers.Dense(3, use_bias=False)])
    report = profile(model, X, call=lambda model, x: model(model.layers[0](x)), metrics=["macs"])
    assert report["macs"] == 2 * LINEAR + 2 * 8 * 3
    assert not model.built


def test_inputs_given_to_a_function_are_not_moved_to_the_models_layout() -> None:
    x = keras.Input((4, 4, 3))
    model = keras.Model(x, keras.layers.Conv2D(2, 1)(x))
    given = ModelInputs(np.ones((1, 3, 4, 4), "float32")).given_to(
        lambda model, x: model(tf.transpose(x, [0, 2, 3, 1]))
    )
    assert TFBackend().fit_inputs(model, given) is given
    assert profile(model, given, metrics=["macs"])["macs"] == 16 * 3 * 2


def test_predict_takes_no_function() -> None:
    with pytest.raises(InputError, match=r"mode='predict' runs model\.predict\(\) and no function given as call="):
        profile(functional(), X, call=encode, mode="predict", metrics=["execution_time"], strict=True)


def test_another_function_is_another_program() -> None:
    backend, model = TFBackend(), functional()
    first = profile(model, X, call=encode, metrics=["macs"], backend=backend)["macs"]
    second = profile(model, X, call=lambda model, x: model(x), metrics=["macs", "execution_time"], backend=backend)
    assert (first, second["macs"]) == (LINEAR, LINEAR + 2 * 8 * 3)
