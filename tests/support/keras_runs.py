"""What a user does with a model of Keras or TensorFlow: calls, training steps, and Keras' own methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from keras_subjects import X

__all__ = ["RUNS", "call", "train", "use_keras"]


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
