"""The TensorFlow backend passes the conformance suite."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("tensorflow")
import keras
import tensorflow as tf
from keras_architectures import BUILDERS, DATA_FORMAT, KINDS, STATISTICS_ARE_PARAMETERS, Mlp, build

from profilerkit.testing import BackendConformance
from profilerkit_tensorflow import TFBackend


class Raising(Mlp):
    def __init__(self) -> None:
        super().__init__()
        self.message = ""

    def call(self, x: Any) -> Any:
        found = super().call(x)
        if self.message:
            raise ValueError(self.message)
        return found


class Uncounted(Mlp):
    def call(self, x: Any) -> Any:
        return tf.image.rgb_to_hsv(super().call(x)[:, :3])


class TestTensorFlow(BackendConformance):
    backend, builders, kinds = TFBackend(), {name: partial(build, name) for name in BUILDERS}, KINDS
    data_format = DATA_FORMAT
    statistics_are_parameters = STATISTICS_ARE_PARAMETERS

    def change_a_parameter(self, model: Any) -> None:
        model.trainable_weights[0].assign_add(tf.ones_like(model.trainable_weights[0]))

    def low_precision_model(self, dtype: str) -> Any:
        if dtype == "int8":
            model = build("mlp")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Keras', of each layer that has nothing to be quantised
                model.quantize("int8")
            return model
        keras.config.set_dtype_policy("bfloat16")
        try:
            return build("mlp")
        finally:
            keras.config.set_dtype_policy("float32")

    def threads(self) -> int:
        return int(tf.config.threading.get_intra_op_parallelism_threads())

    def raising_model(self, message: str) -> Any:
        model = Raising()
        model(tf.zeros((1, 20)))
        model.message = message
        return model

    def uncounted_model(self) -> Any:
        model = Uncounted()
        model(tf.zeros((1, 20)))
        return model


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a value": lambda model: model.classifier.kernel.assign(2 * model.classifier.kernel),
    "whether a layer is trained": lambda model: setattr(model.classifier, "trainable", False),
    "whether a weight is trained": lambda model: setattr(model.classifier.kernel, "trainable", False),
    "an attribute": lambda model: setattr(model.dropout, "late", 1),
    "the metrics": lambda model: model.compile(loss="mse"),
    "random numbers of a layer": lambda model: model.dropout.seed_generator.next(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_compared_before_and_after_holds_all_of_a_keras_model(what: str) -> None:
    model, suite = build("mlp"), TestTensorFlow()
    before = suite.snapshot(model)
    assert suite.snapshot(model) == before
    CHANGES[what](model)
    assert suite.snapshot(model) != before
