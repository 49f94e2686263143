"""A small Keras model on TensorFlow, and the calls of it that `harming` breaks off."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import tensorflow as tf
from harming_calls import Calls, look_at_process
from keras_fingerprint import look_at
from keras_process import process_facts
from keras_subjects import Subject
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function, polymorphic_function
from tensorflow.python.framework import func_graph

from profilerkit_tensorflow import ComputeEvalMetric, TFProfiler

__all__ = ["made"]


class Counting(keras.layers.Layer):  # type: ignore[misc]
    """A layer that counts its calls and keeps what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.total = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x: Any) -> Any:
        self.seen.append(str(x.shape))
        self.last = 1
        self.total.assign_add(1.0)
        return x * 2


class TensorFlow(Calls):
    """A model with what can be done with it."""

    names = ("static", "training", "timed", "compared", "evaluated", "layers")

    def __init__(self) -> None:
        layers = [keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5), Counting()]
        self.model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3)])
        self.x = tf.ones((2, 4))

    def evaluated(self) -> Any:
        profiler = TFProfiler(self.model, {"test": [self.x]})
        profiler.register_profiler_function(
            ComputeEvalMetric(lambda model, loader: float(tf.reduce_sum(model(self.x))))
        )
        return profiler.compute_status("eval_metric")

    def look(self) -> dict[str, Any]:
        """Return the facts that must come back."""
        return {
            **look_at(Subject(self.model, self.x)),
            **process_facts()[0],
            **look_at_process(),
            "process calls": [cls.__dict__.get("__call__") for cls in keras.layers.Dense.__mro__],
            "process functions": (polymorphic_function.Function.__call__, atomic_function.AtomicFunction.call_flat),
            "process graphs": func_graph.FuncGraph.__init__,
            "process questions": (
                tf.Tensor.__getattr__,
                tf.get_static_value,
                type(context.context()).executing_eagerly,
            ),
        }


def made() -> TensorFlow:
    keras.utils.set_random_seed(0)
    warnings.simplefilter("ignore")
    return TensorFlow()
