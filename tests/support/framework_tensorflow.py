"""The models and tensors of TensorFlow for the tests of all backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from bad_calls import layer_formula
from frameworks import Framework
from small import BACKEND

import profilerkit_tensorflow
from profilerkit_tensorflow.costs import registry

__all__ = ["FRAMEWORK"]

L = keras.layers


def _subclassed() -> Any:
    class Identity(keras.Model):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x * 1.0

    model = Identity()
    model(np.ones((1, 3), np.float32))
    return model


def _legacy(*layers: str, size: int = 3) -> Any:
    tf_keras = pytest.importorskip("tf_keras")
    return tf_keras.Sequential([tf_keras.Input((size,)), *map(tf_keras.layers.Activation, layers)])


class _Module(tf.Module):  # type: ignore[misc]
    def __call__(self, x: Any) -> Any:
        return x


class TensorFlow(Framework):
    name, title = "tensorflow", "TensorFlow"
    misfit = ValueError
    no_numbers = "inputs=(8, 8, 3) are numbers, not tensors; if this is a shape, give it as input_shape="
    matmul, new_operator = "MatMul", "MyAttend"
    layer_class = L.Layer
    quick_metrics = ("total_params", "macs")
    quick_options = {}  # noqa: RUF012
    profile_arguments = {"batch_size": 2, "strict": False}  # noqa: RUF012
    package = profilerkit_tensorflow
    costs = registry
    backend = BACKEND
    profiler = profilerkit_tensorflow.TFProfiler
    loader = profilerkit_tensorflow.TFDataLoader
    forward_pass = profilerkit_tensorflow.TFForwardPass

    def tensor(self, values: Any) -> Any:
        return tf.constant(values)

    def array(self, tensor: Any) -> Any:
        return (tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor).numpy()

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype.name)

    def device(self, tensor: Any) -> str:
        return str(tf.identity(tensor).device.rpartition("device:")[2].partition(":")[0]).lower()

    def roll(self, tensor: Any) -> Any:
        return tf.roll(tensor, 1, axis=1)

    def seed(self, number: int) -> None:
        keras.utils.set_random_seed(number)  # Python's and numpy's too
        tf.random.set_global_generator(tf.random.Generator.from_seed(number))

    def draws(self) -> list[float]:
        own = [tf.random.normal(()), tf.random.get_global_generator().normal(()), keras.random.normal(())]
        return [*map(float, own), *self.draws_of_python()]

    def function(self, function: Callable[..., Any]) -> Any:
        return function

    def identity(self, size: int = 3) -> Any:
        return keras.Sequential([keras.Input((size,)), L.Activation("linear")])

    def identities(self) -> Mapping[str, Callable[[], Any]]:
        return {
            "a model": self.identity,
            "a function": lambda: lambda x: x,
            "a layer": lambda: L.Activation("linear"),
            "a subclass": _subclassed,
            "a legacy model": lambda: _legacy("linear"),
            "a module": _Module,
            "a tf.function": lambda: tf.function(lambda x: x),
        }

    def sigmoids(self) -> Sequence[Any]:
        layered = keras.Sequential([keras.Input((1,)), L.Activation("sigmoid")])
        inside = keras.Sequential([keras.Input((1,)), layered])
        return [layered, inside, _legacy("sigmoid", size=1)]

    def dense(self, *sizes: int) -> Any:
        return keras.Sequential([keras.Input(sizes[:1]), *map(L.Dense, sizes[1:])])

    def words(self) -> Any:
        return keras.Sequential([keras.Input((3,), dtype="int64"), L.Embedding(10, 4), L.Flatten(), L.Dense(2)])

    def convolutional(self) -> Any:
        return keras.Sequential([keras.Input((8, 8, 3)), L.Conv2D(4, 3), L.Flatten(), L.Dense(2)])

    def image(self, height: int, width: int, channels: int) -> tuple[int, ...]:
        return height, width, channels

    def declaring(self, *shape: int | None) -> tuple[Any, str]:
        return keras.Sequential([keras.Input(batch_shape=shape, name="x"), L.Dense(2)]), "x"

    def formula_of_layer(self, layer: Any) -> Any:
        return registry.layer_cost(layer)

    def own_calls(self) -> Mapping[str, Any]:
        def registered(layer_type: Any, formula: Any, override: Any) -> Any:
            with registry.scoped_costs():
                return profilerkit_tensorflow.register_layer_cost(layer_type, formula, override=override)

        def watched(model: Any, optimizer: Any, at_step: Any, inputs: Any) -> Any:
            with profilerkit_tensorflow.watch(model, optimizer, at_step, inputs) as found:
                for _ in range(2):
                    found.step()
            return found

        class Own:
            """A layer of the user's own, which may have a formula without overriding one."""

        formula = {"layer_type": lambda: Own, "formula": lambda: layer_formula, "override": False}
        steps = {"model": lambda: self.dense(4, 2), "optimizer": None, "at_step": 1, "inputs": None}
        return {"register_layer_cost": (registered, formula), "watch": (watched, steps)}

    def losses(self) -> Sequence[tuple[str, Any]]:
        return [
            ("squared", self.squared),
            ("MeanSquaredError", keras.losses.MeanSquaredError()),
            ("MeanSquaredError", keras.losses.MeanSquaredError(reduction="none")),
            ("mean_squared_error", keras.losses.mean_squared_error),
        ]

    def mean(self, tensor: Any) -> Any:
        return tf.reduce_mean(tensor)


FRAMEWORK = TensorFlow()
