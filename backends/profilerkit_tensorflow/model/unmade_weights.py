"""Keras layers without weights yet: the first call of the model makes them."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.keras_layers import flat_layers
from profilerkit.backend_kit.keras_variables import lacks_weights

from .kinds import is_function, list_layers
from .weights import ModelParts

__all__ = ["describe_unmade_weights"]


def describe_unmade_weights(model: Any) -> str:
    """Return in words which Keras layers have no weights before the model's first call; empty if all have theirs."""
    inside = {id(layer): layer for outer in _list_keras_layers(model) for layer in flat_layers(outer)}
    names = [layer.name for layer in inside.values() if lacks_weights(layer)]
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"the weights of {shown}, which the first call makes: give inputs or input_shape"


def _list_keras_layers(model: Any) -> list[Any]:
    """Return the Keras layers of a model: the model itself, layers inside a module, or layers that a function names."""
    if is_any_keras(model):
        return [model]
    if is_function(model):
        return ModelParts(model).layers
    return [layer for _, layer in list_layers(model) if is_any_keras(layer)]
