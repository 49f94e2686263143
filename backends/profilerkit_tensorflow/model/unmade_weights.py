"""The Keras layers of a model whose weights its first call makes."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.keras_layers import flat_layers
from profilerkit.backend_kit.keras_variables import own_variables

from .kinds import is_function, list_layers
from .variables import ModelParts

__all__ = ["describe_unmade_weights"]


def describe_unmade_weights(model: Any) -> str:
    """Return in words which Keras layers have no weights before the model's first call; empty if all have theirs."""
    inside = {id(layer): layer for outer in _keras_layers(model) for layer in flat_layers(outer)}
    names = [layer.name for layer in inside.values() if _lacks_weights(layer)]
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"the weights of {shown}, which the first call makes: give inputs or input_shape"


def _keras_layers(model: Any) -> list[Any]:
    """Return the Keras layers of a model: itself, those inside a module, or those that a function names."""
    if is_any_keras(model):
        return [model]
    if is_function(model):
        return ModelParts(model).layers
    return [layer for _, layer in list_layers(model) if is_any_keras(layer)]


def _lacks_weights(layer: Any) -> bool:
    """Return whether a layer will make weights in a ``build`` that has not run."""
    kind = type(layer)
    if layer.built or any(True for _ in own_variables(layer)):
        return False
    # The ``build`` that a layer has from these classes of Keras makes no weights.
    plain = [
        base
        for base in kind.__mro__
        if base.__name__ in ("Layer", "Model", "Sequential", "Functional")
        and base.__module__.partition(".")[0] in ("keras", "tf_keras")
    ]
    return all(kind.build is not getattr(base, "build", None) for base in plain)
