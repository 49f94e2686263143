"""The models that are attacked: of every kind that the TensorFlow backend takes, each with a trap for faults in it."""

from __future__ import annotations

import random
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from keras_faults import fire

__all__ = ["MODELS", "Subject", "X", "build"]

X = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)


@dataclass
class Subject:
    """A model with its inputs; ``watched`` is what of the user's it changes beside itself, by name."""

    model: Any
    inputs: Any = field(default_factory=lambda: tf.constant(X))
    watched: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        if isinstance(self.inputs, dict) and not isinstance(self.model, keras.Model):
            return self.model(**self.inputs)
        return self.model(self.inputs)


Builder = Callable[[], "Subject | Any"]
MODELS: dict[str, Builder] = {}


def model(builder: Builder) -> Builder:
    MODELS[builder.__name__] = builder
    return builder


def build(name: str) -> Subject:
    """Build a model, the same weights and random numbers each time."""
    keras.utils.set_random_seed(1)
    tf_keras.utils.set_random_seed(1)
    made = MODELS[name]()
    return made if isinstance(made, Subject) else Subject(made)


class Trap(keras.layers.Layer):  # type: ignore[misc]
    """Hands on what it is given."""

    def call(self, x: Any) -> Any:
        return fire(self, x)


class LegacyTrap(tf_keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return fire(self, x)


def trap(package: Any) -> Any:
    return Trap() if package is keras else LegacyTrap()


def _functional(package: Any = keras) -> Any:
    inputs = package.Input((4,))
    shared = package.layers.Dense(4, activity_regularizer="l2")
    y = package.layers.BatchNormalization()(shared(trap(package)(shared(inputs))))
    inner = package.Sequential([package.layers.Dense(5, kernel_regularizer="l2"), package.layers.Dropout(0.5)])
    return package.Model(inputs, package.layers.Dense(3)(inner(y)))


@model
def functional() -> Any:
    return _functional()


@model
def sequential() -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), Trap(), keras.layers.ReLU()])


def _unbuilt(package: Any = keras) -> Any:
    return package.Sequential(
        [package.layers.Dense(3), trap(package), package.layers.Dropout(0.5), package.layers.LayerNormalization()]
    )


@model
def unbuilt() -> Any:
    return _unbuilt()


def _single_layer(package: Any = keras) -> Any:
    return package.layers.Dense(3, dtype="mixed_bfloat16")


@model
def single_layer() -> Any:
    return _single_layer()


def _fitted(package: Any) -> Any:
    made = _functional(package)
    made.compile("adam", "mse", metrics=["mae"])
    made.fit(X, np.ones((2, 3)), verbose=0)
    made.predict(X, verbose=0)
    return made


@model
def fitted() -> Any:
    return _fitted(keras)


def _stateful(package: Any = keras) -> Any:
    inputs = package.Input(batch_shape=(2, 4))
    y = package.layers.Reshape((4, 1))(trap(package)(inputs))
    return package.Model(inputs, package.layers.LSTM(3, stateful=True, dropout=0.5)(y))


@model
def stateful() -> Any:
    return _stateful()


@model
def tied_weights() -> Any:
    class Tied(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = keras.layers.Embedding(7, 4)
            self.again = self.table
            self.norm = keras.layers.LayerNormalization()

        def call(self, x: Any) -> Any:
            y = fire(self, self.norm(self.table(x)))
            return keras.ops.matmul(y, keras.ops.transpose(self.again.embeddings))

    made = Tied()
    made(tf.constant([[1, 2, 3]]))
    return Subject(made, tf.constant([[1, 2, 3]]))


class Seen:
    """A plain object, as models keep what they have seen in."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []
        self.length = 0


class Restless(keras.Model):  # type: ignore[misc]
    """Changes whatever a model can change while it runs."""

    calls = 0
    known: dict[str, Any] = {}  # noqa: RUF012 - models do keep caches so

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(4, activity_regularizer="l2")
        self.norm = keras.layers.BatchNormalization()
        self.drop = keras.layers.Dropout(0.5, seed=1)
        self.steps = self.add_weight(name="steps", shape=(), initializer="zeros", trainable=False)
        self.past: list[Any] = []
        self.recent: deque[Any] = deque([1, 2], maxlen=2)
        self.named: dict[str, Any] = {"a": [1]}
        self.numbers = {1, 2}
        self.seen = Seen()
        self.dice = random.Random(3)
        self.numpy_dice = np.random.default_rng(3)

    def call(self, x: Any, training: bool = False) -> Any:
        self.steps.assign_add(1.0)
        y = fire(self, self.drop(self.norm(self.dense(x), training=training), training=training))
        self.past.append(y)
        self.recent.append(y)
        self.named["a"].append(y)
        self.named["b"] = y
        self.numbers.add(3)
        self.seen.outputs.append(y)
        self.seen.length += 1
        self.kept = y
        self.dice.random(), self.numpy_dice.random()
        self.dense.trainable = False
        type(self).calls += 1
        type(self).known["y"] = y
        type(self).late = y
        self.add_loss(tf.reduce_sum(y))
        return y


@model
def restless() -> Any:
    return Restless()


@model
def many_outputs() -> Any:
    one, two = keras.Input((4,), name="one"), keras.Input((4,), name="two")
    y = Trap()(one + two)
    made = keras.Model({"one": one, "two": two}, {"sum": keras.layers.Dense(2)(y), "raw": y})
    return Subject(made, {"one": tf.constant(X), "two": tf.constant(X)})


class Layered(tf.Module):  # type: ignore[misc]
    """A module that makes a variable when it is first called, and holds a Keras layer and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight: Any = None
        self.total = tf.Variable(0.0, trainable=False)
        self.parts = [tf.Variable([1.0, 2.0])]
        self.named = {"v": tf.Variable(3.0)}
        self.pair = (tf.Variable(4.0), [5])
        self.dense = keras.layers.Dense(3)
        self.rng = tf.random.Generator.from_seed(5)

    def __call__(self, x: Any) -> Any:
        if self.weight is None:
            self.weight = tf.Variable(tf.ones((4, 3)))
        self.total.assign_add(1.0)
        self.parts.append(x)
        self.named["x"] = x
        self.pair[1].append(x)
        return fire(self, self.dense(x) + x @ self.weight + self.rng.normal((3,)))


@model
def module() -> Any:
    return Layered()


class Traced(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.ones((4, 3)))

    @tf.function  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        self.weight.assign_add(tf.ones((4, 3)))
        return fire(self, x @ self.weight)


@model
def traced_module() -> Any:
    return Traced()


@model
def function() -> Any:
    return tf.function(Layered())


@model
def function_of_a_method() -> Any:
    owner = Traced()
    return Subject(owner.__call__, watched={"owner": owner})


@model
def concrete_function() -> Any:
    owner = Traced()
    concrete = tf.function(owner.__call__).get_concrete_function(tf.TensorSpec((2, 4)))
    return Subject(concrete, watched={"owner": owner})


@model
def closure() -> Any:
    layer, calls = keras.layers.Dense(3), 0
    seen: list[Any] = []

    def run(x: Any) -> Any:
        nonlocal calls
        calls += 1
        seen.append(x)
        return fire(layer, layer(x))

    return run


@model
def saved_model() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        made = Traced()
        made(tf.constant(X))
        tf.saved_model.save(made, folder)
        return tf.saved_model.load(folder)


@model
def values_asked_for() -> Any:
    class DataDependent(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(4)
            self.seen: list[Any] = []

        def call(self, x: Any) -> Any:
            for _ in range(int(tf.reduce_sum(x * x).numpy())):
                x = fire(self, self.dense(x))
                self.seen.append(x)
            return x

    made = DataDependent()
    made.dense.build((None, 4))
    made.built = True
    return made


class LegacyRestless(tf_keras.Model):  # type: ignore[misc]
    """Changes what a model of tf_keras can change while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = tf_keras.layers.Dense(4, activity_regularizer="l2")
        self.norm = tf_keras.layers.BatchNormalization()
        self.seen: list[Any] = []
        self.named: dict[str, Any] = {}

    def call(self, x: Any, training: bool = False) -> Any:
        y = fire(self, self.norm(self.dense(x), training=training))
        self.seen.append(y)
        self.named["y"] = y
        self.add_loss(tf.reduce_sum(y))
        self.add_metric(tf.reduce_sum(y), name="sum")
        return y


MODELS |= {
    "legacy_functional": lambda: _functional(tf_keras),
    "legacy_fitted": lambda: _fitted(tf_keras),
    "legacy_unbuilt": lambda: _unbuilt(tf_keras),
    "legacy_stateful": lambda: _stateful(tf_keras),
    "legacy_layer": lambda: _single_layer(tf_keras),
    "legacy_restless": LegacyRestless,
}
