"""Facts about a variable of a model: its identity, its size, and whether training changes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_any_keras

from ..compat.variables import find_whole_variable
from .kinds import own_variables
from .stored_variables import find_stored_variable, read_weight_list

__all__ = ["count_bytes", "count_elements", "identify", "list_trainable_variables"]


def count_elements(variable: Any) -> int:
    """Return how many elements a variable stores; 0 for one without a size yet."""
    shape = tuple(variable.shape)
    return 0 if None in shape else math.prod(int(size) for size in shape)


def count_bytes(variable: Any) -> int:
    """Return the bytes that a variable stores."""
    return count_elements(variable) * int(tf.as_dtype(variable.dtype).size)


def identify(variable: Any) -> int:
    """Return a number that is equal for a variable, the Keras variable around it, and its copy on each device.

    A mirrored variable (``tf.distribute.MirroredStrategy``) has a copy on each device, and those are what graphs know.
    """
    return id(find_whole_variable(find_stored_variable(variable)))


def list_trainable_variables(layers: Iterable[tuple[str, Any]], captured: Iterable[Any] = ()) -> list[Any]:
    """Return the variables that training changes.

    A Keras model lists them; of the variables that modules and saved models hold and functions capture, they are those
    marked as trainable. ``layers`` are the model's, itself first.
    """
    named = list(layers)
    model = named[0][1]
    if is_any_keras(model):
        return read_weight_list(model, "trainable_weights")
    variables = [variable for _, layer in named for _, variable in own_variables(layer)]
    frozen = {identify(v) for _, layer in named for v in _frozen(layer)}
    distinct = {identify(variable): variable for variable in (*variables, *captured)}
    return [variable for key, variable in distinct.items() if variable.trainable and key not in frozen]


def _frozen(layer: Any) -> Iterator[Any]:
    """Yield the variables that a Keras layer inside another kind of model lists as not trainable."""
    if is_any_keras(layer):
        trained = set(map(identify, read_weight_list(layer, "trainable_weights")))
        yield from (variable for variable in read_weight_list(layer, "weights") if identify(variable) not in trained)
