"""Variables that have a shape and a dtype and no value: a trace refers to them, and no memory is allocated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_layers import collect_without_values
from profilerkit.backend_kit.keras_optimizers import count_state_bytes

from ..compat.graphs import FuncGraph
from ..compat.keras import find_optimizer_build
from ..compat.variables import make_unallocated_variable, set_unallocated
from ..untouched.preservation import preserve

__all__ = ["collect_unallocated", "make_without_values", "optimizer_state_bytes"]


@contextmanager
def collect_unallocated() -> Iterator[list[Any]]:
    """Yield a list to which every variable of TensorFlow's that is made in this context is added, without a value."""
    made: list[Any] = []

    def make_unallocated(make: Callable[..., Any], **arguments: Any) -> Any:
        value = arguments["initial_value"]
        shape, dtype = arguments.get("shape"), arguments.get("dtype")
        if shape is None or dtype is None:  # the value tells them: in a graph it takes no memory
            with tf.Graph().as_default():
                first = value() if callable(value) else value
                if not tf.is_tensor(first):
                    first = tf.convert_to_tensor(first, dtype=dtype)
            shape, dtype = first.shape, first.dtype
        kept = {name: arguments.get(name) for name in ("trainable", "name", "synchronization", "aggregation")}
        made.append(make_unallocated_variable(shape=shape, dtype=dtype, **kept))
        return made[-1]

    with tf.variable_creator_scope(make_unallocated):
        yield made


@contextmanager
def make_without_values() -> Iterator[list[Any]]:
    """Yield a list that has, at the end, the variables that layers of Keras 3 have made in this context.

    In place of a value each gets a variable of TensorFlow's without one. Use inside `preserve`.
    """
    with collect_without_values() as made:
        yield made
    for variable in made:
        set_unallocated(variable)


# The state of a compiled Keras model's optimizer ----------------------------------------------------------------------


def optimizer_state_bytes(model: Any) -> int | str:
    """Return the bytes of a compiled model's optimizer state, of Keras 3 or ``tf_keras``, as `count_state_bytes`."""
    return count_state_bytes(model, _make_variables)


def _make_variables(model: Any, optimizer: Any) -> list[Any]:
    """Return the variables that another optimizer with the same settings makes for the model, without values."""
    with preserve(model):
        copy = type(optimizer).from_config(optimizer.get_config())
        with collect_unallocated() as made, FuncGraph("build").as_default():  # it may read the weights
            find_optimizer_build(copy)(model.trainable_variables)
    return made
