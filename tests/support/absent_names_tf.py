"""Profile a few models of TensorFlow without one of the names in its `compat`, and print what the reports say.

The argument is a path that `find` looks for, an executor, or an attribute of tensors; without one nothing is missing.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

from profilerkit import profile
from profilerkit.backend_kit import private_names

METRICS = ("total_params", "macs", "flops", "memory_footprint", "training_macs")


def take_away(name: str) -> None:
    """Hide a name from the backend, which has not been imported yet, and from nothing else."""
    look = private_names.find
    hidden = name.rpartition(".")[2]

    def find(path: str, *further: Any) -> Any:
        return look("profilerkit.no_such_name" if path == name else path, *further)

    private_names.find = find
    from profilerkit_tensorflow import compat

    compat.EXECUTORS = tuple(each for each in compat.EXECUTORS if each != hidden)
    if hidden == "_numpy":
        compat.EAGER_TENSOR = type("Tensor", (), {})
    elif hidden == "_id":
        compat.number_of = lambda tensor: 0


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


def models() -> dict[str, tuple[Any, Any]]:
    """Return models by name, with their inputs."""
    layers = keras.layers
    pixels, words = keras.Input((8, 8, 3)), keras.Input((5, 3))
    convolved = layers.Dense(2)(layers.Flatten()(layers.BatchNormalization()(layers.Conv2D(4, 3)(pixels))))
    found = {
        "cnn": (keras.Model(pixels, convolved), tf.ones((1, 8, 8, 3))),
        "lstm": (keras.Model(words, layers.LSTM(4)(words)), tf.ones((2, 5, 3))),
        "encoder": (keras.Model(words, layers.MultiHeadAttention(2, 3)(words, words)), tf.ones((2, 5, 3))),
        "unbuilt": (Deciding(), tf.ones((2, 4))),
    }
    for name, kind in (("deciding", Deciding), ("leaving", Leaving)):
        model = kind()
        model.build((2, 4))
        model.dense.build((2, 4))
        found[name] = (model, tf.ones((2, 4)))
    return found


def outcome(model: Any, inputs: Any) -> dict[str, Any]:
    """Return value, completeness and what is missing of each metric."""
    report = profile(model, inputs, backend="tensorflow", metrics=list(METRICS))
    return {
        name: [report.status(name).value, report.status(name).completeness.value, [*report.status(name).missing]]
        for name in METRICS
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        take_away(sys.argv[1])
    sys.stdout.write(json.dumps({name: outcome(*model) for name, model in models().items()}) + "\n")
