"""`TFProfiler`: the profiler for TensorFlow and Keras models."""

from __future__ import annotations

from typing import Any, ClassVar

from profilerkit import Backend, Profiler
from profilerkit.times.watching import Watch

from .backend import TFBackend

__all__ = ["TFProfiler", "watch"]


class TFProfiler(Profiler):
    """A `Profiler` whose backend is TensorFlow's: for Keras models, ``tf.Module``, functions and saved models."""

    backend_class: ClassVar[type[Backend] | None] = TFBackend


def watch(model: Any, optimizer: Any = None, at_step: Any = 5, inputs: Any = None) -> Watch:
    """Return a `Watch` that measures chosen steps of a training loop of the model, each as a whole.

    Args:
        model: The model that the loop trains.
        optimizer: The name of the optimizer, such as "adam", for `training_memory`; by default the optimizer that a
            Keras model was compiled with.
        at_step: The number of a step, counted from 0, or several; None to use ``start()`` and ``stop()``.
        inputs: The inputs for the counts, such as a batch; by default the inputs that a Keras model declares.

    >>> import keras
    >>> from profilerkit_tensorflow import watch
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    >>> model.compile(optimizer="sgd", loss="mse")
    >>> data = keras.ops.ones((8, 4)), keras.ops.ones((8, 1))
    >>> with watch(model, at_step=(1, 2), inputs=data[0]) as watched:
    ...     for _ in range(4):
    ...         _ = model.train_on_batch(*data)
    ...         watched.step()
    >>> sorted(watched.steps.steps)
    [1, 2]
    """
    profiler = TFProfiler(model) if inputs is None else TFProfiler(model, inputs=inputs)
    return profiler.watch(at_step, optimizer=optimizer)
