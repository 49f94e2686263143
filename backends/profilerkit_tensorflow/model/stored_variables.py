"""Variables of TensorFlow and Keras: which are the same one, and what TensorFlow stores of each."""

from __future__ import annotations

import math
import sys
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_layers import read_variable_value
from profilerkit.backend_kit.keras_quantization import name_variable

from ..compat.variables import find_whole_variable

__all__ = [
    "count_bytes",
    "count_elements",
    "find_id",
    "find_stored_variable",
    "holds_random_state",
    "identify",
    "is_variable",
    "keras_variable_classes",
]


def is_variable(value: Any) -> bool:
    """Return whether a value is a variable of TensorFlow or of Keras 3."""
    return isinstance(value, (tf.Variable, *keras_variable_classes()))


def keras_variable_classes() -> tuple[Any, ...]:
    """Return the class of Keras 3's variables, which are no TensorFlow variables; nothing if Keras is not imported."""
    variable = getattr(sys.modules.get("keras"), "Variable", None)
    return (variable,) if isinstance(variable, type) else ()


def holds_random_state(variable: Any) -> bool:
    """Return whether a variable is the state of a random-number generator, of Keras or TensorFlow: no weight."""
    return name_variable(variable) in ("seed_generator_state", "StateVar")


def find_stored_variable(variable: Any) -> Any:
    """Return the TensorFlow variable of a Keras variable, or the Keras variable itself if it has none yet."""
    inner = read_variable_value(variable) if isinstance(variable, keras_variable_classes()) else None
    return variable if inner is None else inner


def find_id(variable: Any) -> int:
    """Return the id of the TensorFlow variable: a variable of Keras has the id of the variable behind it."""
    return id(find_stored_variable(variable))


def count_elements(variable: Any) -> int:
    """Return how many elements a variable stores; 0 for one without a size yet."""
    shape = tuple(variable.shape)
    return 0 if None in shape else math.prod(int(size) for size in shape)


def count_bytes(variable: Any) -> int:
    """Return the bytes that a variable stores."""
    return count_elements(variable) * int(tf.as_dtype(variable.dtype).size)


def identify(variable: Any) -> int:
    """Return a number that is equal for a variable, the Keras variable around it, and its copy on each device.

    A mirrored variable (``tf.distribute.MirroredStrategy``) has a copy on each device, and graphs refer to the copies.
    """
    return id(find_whole_variable(find_stored_variable(variable)))
