"""The variables of TensorFlow that are behind those of Keras, and the weights that a Keras layer lists."""

from __future__ import annotations

import sys
from typing import Any

from profilerkit.backend_kit.keras_layers import direct_layers, read_variable_value

__all__ = ["find_id", "find_stored_variable", "keras_variable_classes", "read_weight_list"]


def find_stored_variable(variable: Any) -> Any:
    """Return the TensorFlow variable of a Keras variable, or the Keras variable itself if it has none yet."""
    inner = read_variable_value(variable) if isinstance(variable, keras_variable_classes()) else None
    return variable if inner is None else inner


def find_id(variable: Any) -> int:
    """Return the id of the TensorFlow variable, by which a variable of Keras is the same as the one behind it."""
    return id(find_stored_variable(variable))


def keras_variable_classes() -> tuple[Any, ...]:
    """Return the class of Keras 3's variables, which are no TensorFlow variables; nothing if Keras is not imported."""
    variable = getattr(sys.modules.get("keras"), "Variable", None)
    return (variable,) if isinstance(variable, type) else ()


def read_weight_list(layer: Any, which: str) -> list[Any]:
    """Return the weights that a Keras layer lists under a name, ``trainable_weights`` for instance."""
    try:
        return list(getattr(layer, which))
    except ValueError:  # tf_keras raises it for a model that is not built
        return [variable for child in direct_layers(layer) for variable in read_weight_list(child, which)]
