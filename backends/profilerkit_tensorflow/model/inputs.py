"""The inputs of models: those that a model declares, and given ones in the form that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_calls import read_declared_call, read_declared_shapes
from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.layouts import in_declared_layout
from profilerkit.declared_inputs import DeclaredInput

from ..compat.saved_models import is_saved_model
from .calls import is_saved_for_inference, read_served_signature
from .input_checks import require_tensors

__all__ = ["copy_tensors", "fit_inputs", "read_declared_inputs"]


def read_declared_inputs(model: Any) -> ModelInputs | None:
    """Return the call that a model declares, with a `DeclaredInput` for each tensor; None if it declares none."""
    if is_any_keras(model):
        return read_declared_call(model)
    if is_saved_model(model):
        args, kwargs = _read_saved_call(model)
    else:
        args, kwargs = tuple(getattr(model, "input_signature", None) or ()), {}
    declared = ModelInputs(*args, **kwargs)
    leaves = list(declared.leaves())
    return declared.map(DeclaredInput.of) if leaves and all(hasattr(leaf, "shape") for leaf in leaves) else None


def _read_saved_call(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the declared arguments of the model's call, or of the function that it serves."""
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


# Images with the channels first become ones with the channels last ----------------------------------------------------


def fit_inputs(model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs as a Keras model declares them, if it is enough to move the channels to the end.

    A batch of images ``(N, 3, 224, 224)``, as PyTorch has them, becomes ``(N, 224, 224, 3)`` for a model with an input
    of shape ``(None, 224, 224, 3)``; so do sequences and volumes. Inputs that fit already, or that would not fit even
    so, are returned unchanged. Of a saved model, several inputs become one list or dict if it was saved for that.

    Raises `InputError` for inputs that no Keras model can take: symbolic tensors, data sets, iterators, bare numbers.
    """
    if inputs.function is not None:  # it may take any inputs
        return inputs
    require_tensors(model, inputs)
    if is_saved_model(model):
        return _fit_structure(model, inputs)
    if inputs.kwargs or not is_any_keras(model):
        return inputs
    args = in_declared_layout(inputs.args, read_declared_shapes(model), _find_shape, tf.transpose)
    return inputs if args is inputs.args else ModelInputs(*args)


def _fit_structure(model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs as the one list or dict a saved model takes; ``model.export`` of Keras saves several so."""
    declared = read_declared_inputs(model)
    if declared is None or declared.kwargs or len(declared.args) != 1:
        return inputs
    (structure,) = declared.args
    if isinstance(structure, (list, tuple)) and not inputs.kwargs and len(inputs.args) == len(structure) > 1:
        return ModelInputs(list(inputs.args))
    if isinstance(structure, Mapping) and not inputs.args and inputs.kwargs.keys() == structure.keys():
        return ModelInputs(dict(inputs.kwargs))
    return inputs


def copy_tensors(inputs: ModelInputs) -> ModelInputs:
    """Return inputs with copies of their tensors, on the device of the block that this is called in."""
    return inputs.map(lambda leaf: tf.identity(leaf) if tf.is_tensor(leaf) else leaf)


def _find_shape(leaf: Any) -> Sequence[int | None] | None:
    return leaf.shape if tf.is_tensor(leaf) and leaf.shape.rank is not None else None
