"""Profile models of TensorFlow without one of the names in its `compat`, and print what the reports say.

The arguments are the names, each taken away in a process of its own; with an empty one nothing is missing.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from absent_names import each_without, find_outcome, take_away

METRICS = ("total_params", "macs", "flops", "memory_footprint")
#: Models of which a step is counted too: with the gradients of loops, of an eager run, and of what a function calls.
TRAINED = ("lstm", "module", "unbuilt", "function")


class Deciding(keras.Model):  # type: ignore[misc]
    """Decides by a value, so that it is run eagerly."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(4)

    def call(self, x: Any) -> Any:
        """Return the product."""
        return self.dense(x) if float(tf.reduce_sum(x)) > 0 else x


class Leaving(Deciding):
    """Does half of its work in numpy."""

    def call(self, x: Any) -> Any:
        """Return two products."""
        return tf.constant(np.asarray(super().call(x)) @ np.ones((4, 4), np.float32))


class Module(tf.Module):  # type: ignore[misc]
    """Has a weight, and a loop over a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.ones((4, 4)))

    @tf.function(input_signature=[tf.TensorSpec((None, 4))])  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        """Return the third power."""
        for _ in tf.range(3):
            x = x @ self.weight
        return x


def models() -> dict[str, tuple[Any, Any]]:
    """Return models by name, with their inputs."""
    layers = keras.layers
    pixels, words = keras.Input((8, 8, 3)), keras.Input((5, 3))
    convolved = layers.Dense(2)(layers.Flatten()(layers.BatchNormalization()(layers.Conv2D(4, 3)(pixels))))
    two = tf.ones((2, 4))
    found = {
        "cnn": (keras.Model(pixels, convolved), tf.ones((1, 8, 8, 3))),
        "lstm": (keras.Model(words, layers.LSTM(4)(words)), tf.ones((2, 5, 3))),
        "encoder": (keras.Model(words, layers.MultiHeadAttention(2, 3)(words, words)), tf.ones((2, 5, 3))),
        "unbuilt": (Deciding(), two),
        "unbuilt sequential": (keras.Sequential([layers.Dense(4), layers.Dense(2)]), two),
        "module": (Module(), two),
        "callable": (lambda x: x @ tf.ones((4, 4)) if tf.reduce_sum(x) > 0 else x, two),
    }
    for name, kind in (("deciding", Deciding), ("leaving", Leaving)):
        model = kind()
        model.build((2, 4))
        model.dense.build((2, 4))
        found[name] = (model, two)
    found["function"] = (tf.function(found["cnn"][0]), found["cnn"][1])
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(found["module"][0], folder)
        found["saved model"] = (tf.saved_model.load(folder), two)
    return found


def profiled(name: str) -> dict[str, Any]:
    """Return what the reports say without a name."""
    return {
        model: find_outcome(*made, [*METRICS, *(["training_macs"] if model in TRAINED else [])], backend="tensorflow")
        for model, made in models().items()
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(each_without(sys.argv[1:], take_away, profiled)) + "\n")
