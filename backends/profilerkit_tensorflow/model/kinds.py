"""The kinds of model that this backend knows, and how each holds its layers and variables.

Layers are layers of Keras 3, layers of ``tf_keras`` (only if it is imported already), and ``tf.Module``s. A function, a
saved model or a plain callable is one layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit import call_stack, keras_children, keras_layers, keras_quantization, keras_variables
from profilerkit.backend_kit.keras_kinds import is_any_keras, is_keras
from profilerkit.backend_kit.keras_quantization import name_variable

from ..compat.saved_models import is_saved_model
from ..compat.variables import list_parts
from .stored_variables import find_id, find_stored_variable, holds_random_state, is_variable

__all__ = [
    "TRACED_FUNCTIONS",
    "holds_saved_model",
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
#: Attributes of a saved model that lead to no weights: its optimizer, metadata of Keras, and the table of signatures.
_NOT_FOLLOWED = ("optimizer", "_optimizer", "keras_api", "signatures")


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
        variables = _list_saved_variables(layer)
        named = ((name_variable(variable), variable) for variable in variables if not holds_random_state(variable))
    scales = set(map(id, _list_saved_scales(layer)))
    yield from ((name, variable) for name, variable in named if id(variable) not in scales)


def list_own_states(layer: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield the variables of a layer that are no parameters, by name, and whether the layer saves them.

    See `keras_variables.list_own_states`. A saved model has the scales of its quantized weights.
    """
    if is_any_keras(layer):
        yield from keras_variables.list_own_states(layer)
    for variable in _list_saved_scales(layer):
        yield name_variable(variable), variable, True


def holds_saved_model(layer: Any) -> bool:
    """Return whether a layer is the one by which Keras calls a saved model, with all of its variables."""
    return is_keras(layer) and type(layer).__name__ == "TFSMLayer"


def _list_saved_scales(layer: Any) -> list[Any]:
    """Return the scales among the variables of a saved model, or of the layer that calls one; none for other layers."""
    if holds_saved_model(layer):
        variables = [variable for _, variable in keras_variables.name_own_weights(layer)]
    else:
        variables = _list_saved_variables(layer) if is_saved_model(layer) else []
    by_id = {find_id(variable): variable for variable in variables}
    stored = map(find_stored_variable, by_id.values())  # these have the names of the file
    return [by_id[id(scale)] for scale in keras_quantization.find_quantization_data(stored)]


def _list_saved_variables(model: Any) -> list[Any]:
    """Return the variables that a saved model lists; otherwise the variables of its functions and attributes."""
    listed = getattr(model, "variables", None)
    if not (listed is None or callable(listed) or is_variable(listed)):  # no attribute of the user's with this name
        return list(listed)
    call = getattr(model, "__call__", None)  # noqa: B004 (the stored value is read; no test whether it is callable)
    functions = [call, *(getattr(model, "signatures", None) or {}).values()]
    by_id: dict[int, Any] = {}
    for function in functions:
        for concrete in getattr(function, "concrete_functions", [function]):  # a signature is concrete itself
            captured = getattr(getattr(concrete, "graph", None), "variables", ())
            by_id.update((id(variable), variable) for variable in captured)
    by_id.update((id(variable), variable) for variable in _find_variables(model))
    return list(by_id.values())


def _find_variables(model: Any) -> Iterator[Any]:
    """Yield the variables that were saved with a model, except its optimizer's."""
    waiting, seen = [model], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_variable(value):
            yield value
        else:
            children = tf.train.TrackableView.children(value)
            waiting += [child for name, child in reversed(children.items()) if name not in _NOT_FOLLOWED]


def _write_path(path: tuple[Any, ...]) -> str:
    """Return the path of a part of a module by its attributes: ``blocks[0]``."""
    first, *rest = path
    return "".join([str(first), *(f"[{key}]" for key in rest)]).replace(".", "_")
