"""The inputs that models declare: Keras models, saved models, and functions with a signature."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_calls import read_declared_call
from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.declared_inputs import DeclaredInput

from ..compat.saved_models import is_saved_model
from .call_signatures import is_saved_for_inference, read_served_signature

__all__ = ["read_declared_inputs"]


def read_declared_inputs(model: Any) -> ModelInputs | None:
    """Return the call that a model declares, with a `DeclaredInput` for each tensor; None where it declares none."""
    if is_any_keras(model):
        return read_declared_call(model)
    if is_saved_model(model):
        args, kwargs = _read_saved_call(model)
    else:
        args, kwargs = tuple(getattr(model, "input_signature", None) or ()), {}
    if not all(hasattr(leaf, "shape") for leaf in (*args, *kwargs.values())):
        return None
    return ModelInputs(*args, **kwargs).map(DeclaredInput.of) if args or kwargs else None


def _read_saved_call(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the declared arguments of the model's call, or of what it serves."""
    if not callable(model):
        return read_served_signature(model)
    functions = list(model.__call__.concrete_functions)
    if not functions:
        return (), {}
    for_inference = list(filter(is_saved_for_inference, functions))
    function = (for_inference or functions)[0]
    positional, _ = function.structured_input_signature
    inputs = [leaf for leaf in positional if not isinstance(leaf, (bool, type(None)))]  # without ``training``, ``mask``
    return tuple(inputs), {}
