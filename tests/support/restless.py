"""Models of every kind, which change themselves while they run, and what is done with them."""

from __future__ import annotations

import random
import tempfile
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("tf_keras")
import keras
import tensorflow as tf
import tf_keras

X = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)


class Cache:
    """A plain object, as models keep what they have seen in."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.length = 0


class Restless(keras.Model):  # type: ignore[misc]
    """Changes whatever a model can change while it runs."""

    calls = 0
    known: dict[str, Any] = {}  # noqa: RUF012 - models do keep caches so

    def __init__(self) -> None:
        super().__init__()
        self.unbuilt = keras.layers.Dense(4, activity_regularizer="l2")
        self.norm = keras.layers.BatchNormalization()
        self.drop = keras.layers.Dropout(0.5, seed=1)
        self.steps = self.add_weight(name="steps", shape=(), initializer="zeros", trainable=False)
        self.past: list[Any] = []
        self.named: dict[str, Any] = {"a": [1]}
        self.numbers = {1, 2}
        self.recent: deque[Any] = deque([1, 2], maxlen=2)
        self.cache = Cache()
        self.dice = random.Random(3)
        self.numpy_dice = np.random.default_rng(3)

    def call(self, x: Any, training: bool = False) -> Any:
        self.steps.assign_add(1.0)
        y = self.drop(self.norm(self.unbuilt(x), training=training), training=training)
        self.past.append(y)
        self.named["a"].append(y)
        self.named["b"] = y
        self.numbers.add(3)
        self.recent.append(y)
        self.cache.seen.append(y)
        self.cache.length += 1
        self.kept = y
        self.dice.random(), self.numpy_dice.random()
        self.norm.trainable = False
        type(self).calls += 1
        type(self).known["y"] = y
        type(self).late = y
        self.add_loss(tf.reduce_sum(y))
        return y


class Layered(tf.Module):  # type: ignore[misc]
    """A module that makes its variables when it is first called, and holds a Keras layer."""

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
        return self.dense(x) + x @ self.weight + self.rng.normal((3,))


class Traced(tf.Module):  # type: ignore[misc]
    """A module whose method is a tf.function already."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.ones((4, 3)))

    @tf.function  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        self.weight.assign_add(tf.ones((4, 3)))
        return x @ self.weight


def functional(package: Any) -> Any:
    inputs = package.Input((4,))
    shared = package.layers.Dense(4, activity_regularizer="l2")
    y = package.layers.BatchNormalization()(shared(shared(inputs)))
    inner = package.Sequential([package.layers.Dense(5, kernel_regularizer="l2"), package.layers.Dropout(0.5)])
    return package.Model(inputs, package.layers.Dense(3)(inner(y)))


def fitted(package: Any) -> Any:
    model = functional(package)
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(X, np.ones((2, 3)), verbose=0)
    model.predict(X, verbose=0)
    return model


def unbuilt(package: Any) -> Any:
    return package.Sequential(
        [package.layers.Dense(3), package.layers.Dropout(0.5), package.layers.LayerNormalization()]
    )


def stateful(package: Any) -> Any:
    inputs = package.Input(batch_shape=(2, 4))
    y = package.layers.Reshape((4, 1))(inputs)
    return package.Model(inputs, package.layers.LSTM(3, stateful=True, dropout=0.5)(y))


def mixed(package: Any) -> Any:
    return package.layers.Dense(3, dtype="mixed_bfloat16")


def legacy_subclass() -> Any:
    class Legacy(tf_keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf_keras.layers.Dense(4, activity_regularizer="l2")
            self.norm = tf_keras.layers.BatchNormalization()
            self.seen: list[Any] = []
            self.named: dict[str, Any] = {}

        def call(self, x: Any, training: bool = False) -> Any:
            y = self.norm(self.dense(x), training=training)
            self.seen.append(y)
            self.named["y"] = y
            self.add_loss(tf.reduce_sum(y))
            self.add_metric(tf.reduce_sum(y), name="sum")
            return y

    return Legacy()


def closure() -> Any:
    layer, calls = keras.layers.Dense(3), 0
    seen: list[Any] = []

    def model(x: Any) -> Any:
        nonlocal calls
        calls += 1
        seen.append(x)
        return layer(x)

    return model


#: A function of a method knows its module weakly.
ALIVE: list[Any] = []


def method() -> Any:
    ALIVE.append(Traced())
    return ALIVE[-1].__call__


def concrete() -> Any:
    return tf.function(method()).get_concrete_function(tf.TensorSpec((2, 4)))


def loaded() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        module = Traced()
        module(X)
        tf.saved_model.save(module, folder)
        return tf.saved_model.load(folder)


MODELS: dict[str, Callable[[], Any]] = {
    "keras functional": lambda: functional(keras),
    "keras fitted": lambda: fitted(keras),
    "keras unbuilt": lambda: unbuilt(keras),
    "keras stateful": lambda: stateful(keras),
    "keras layer": lambda: mixed(keras),
    "keras subclass": Restless,
    "tf_keras functional": lambda: functional(tf_keras),
    "tf_keras fitted": lambda: fitted(tf_keras),
    "tf_keras unbuilt": lambda: unbuilt(tf_keras),
    "tf_keras stateful": lambda: stateful(tf_keras),
    "tf_keras layer": lambda: mixed(tf_keras),
    "tf_keras subclass": legacy_subclass,
    "module": Layered,
    "traced module": Traced,
    "function": lambda: tf.function(Layered()),
    "function of a method": method,
    "concrete function": concrete,
    "callable": closure,
    "saved model": loaded,
}


def trace_training(model: Any) -> None:
    tf.function(lambda x: call(model, x, training=True), autograph=False).get_concrete_function(tf.TensorSpec((2, 4)))


def call_in_training(model: Any) -> None:
    call(model, tf.constant(X), training=True)


def train(model: Any) -> None:
    variables = [tf.Variable(1.0)]
    with tf.GradientTape() as tape:
        loss = tf.cast(tf.reduce_sum(call(model, tf.constant(X), training=True)), tf.float32) * variables[0]
        variables += list(getattr(model, "trainable_variables", []))
    gradients = tape.gradient(loss, variables)
    for variable, gradient in zip(variables, gradients, strict=True):
        if gradient is not None:
            variable.assign_sub(tf.cast(gradient, variable.dtype) + 1)


def use_keras(model: Any) -> None:
    """Call Keras' own methods, which make functions, and compile."""
    if not isinstance(model, keras.Model | tf_keras.Model):
        call(model, tf.constant(X))
        return
    model.predict(X, verbose=0, batch_size=2)
    model.compile("sgd", "mse", metrics=["mae"])
    out = np.shape(model(X))
    model.fit(X, np.ones(out), verbose=0)
    model.evaluate(X, np.ones(out), verbose=0)
    model.trainable = False


def call(model: Any, x: Any, training: bool = False) -> Any:
    takes_flag = isinstance(model, keras.Model | tf_keras.Model)
    return model(x, training=training) if takes_flag else model(x)


RUNS: list[Callable[[Any], None]] = [trace_training, call_in_training, train, use_keras]
