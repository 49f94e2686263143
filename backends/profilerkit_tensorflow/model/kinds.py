"""The kinds of model that this backend knows, and how each holds its layers and variables.

Layers are layers of Keras 3, layers of ``tf_keras`` (only if it is imported already), and ``tf.Module``s. A function, a
saved model or a plain callable is one layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit import call_stack, keras_children, keras_layers, keras_variables
from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.keras_quantization import name_variable

from ..compat.saved_models import is_saved_model
from ..compat.variables import list_parts
from .saved_variables import list_saved_scales, list_saved_variables
from .stored_variables import holds_random_state, is_variable

__all__ = [
    "TRACED_FUNCTIONS",
    "is_function",
    "is_layer",
    "is_unbuilt",
    "list_layers",
    "list_own_states",
    "name_own_weights",
    "type_name",
]

#: The classes of functions that keep a trace of TensorFlow's for each kind of argument.
TRACED_FUNCTIONS = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)


def is_layer(value: Any) -> bool:
    """Return whether a value is a layer: of Keras, or a ``tf.Module``."""
    return is_any_keras(value) or isinstance(value, tf.Module)


def is_function(value: Any) -> bool:
    """Return whether a value is a ``tf.function``, one of its traces, or another Python callable."""
    return callable(value) and not isinstance(value, type) and not is_layer(value) and not is_saved_model(value)


def type_name(layer: Any) -> str:
    """Return the name of a layer's class; "function" of a function, "SavedModel" of a saved model."""
    if is_saved_model(layer):
        return "SavedModel"
    return "function" if is_function(layer) else type(layer).__name__


def is_unbuilt(model: Any) -> bool:
    """Return whether a Keras model lacks variables that its first call would make."""
    return is_any_keras(model) and keras_layers.is_keras_unbuilt(model)


def list_layers(model: Any) -> list[tuple[str, Any]]:
    """Return every layer under every path it has, the model itself first, under the empty one."""
    return call_stack.list_layers(model, _list_children)


def _list_children(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layers directly inside a layer, by name; one with several names under each of them.

    See `profilerkit.backend_kit.keras_children.list_children` for Keras; a ``tf.Module`` names them by its attributes.
    """
    if is_any_keras(layer):
        yield from keras_children.list_children(layer)
    elif isinstance(layer, tf.Module):
        for path, child in list_parts(layer, is_layer):
            yield _write_path(path), child


def name_own_weights(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a layer holds itself, by name; a saved model holds all of its variables."""
    named: Iterable[tuple[str, Any]] = ()
    if is_any_keras(layer):
        named = keras_variables.name_own_weights(layer)
    elif isinstance(layer, tf.Module):
        named = ((_write_path(path), variable) for path, variable in list_parts(layer, is_variable))
    elif is_saved_model(layer):
        variables = list_saved_variables(layer)
        named = ((name_variable(variable), variable) for variable in variables if not holds_random_state(variable))
    scales = set(map(id, list_saved_scales(layer)))
    yield from ((name, variable) for name, variable in named if id(variable) not in scales)


def list_own_states(layer: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield the variables of a layer that are no parameters, by name, and whether the layer saves them.

    See `keras_variables.list_own_states`. A saved model has the scales of its quantized weights.
    """
    if is_any_keras(layer):
        yield from keras_variables.list_own_states(layer)
    for variable in list_saved_scales(layer):
        yield name_variable(variable), variable, True


def _write_path(path: tuple[Any, ...]) -> str:
    """Return the path of a part of a module by its attributes: ``blocks[0]``."""
    first, *rest = path
    return "".join([str(first), *(f"[{key}]" for key in rest)]).replace(".", "_")
