"""What a Keras model on torch needs to be called: its inputs, its device, and variables that stand in for its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs, WithoutValuesError
from profilerkit.backend_kit.keras_calls import call_arguments, read_declared_shapes
from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.backend_kit.keras_layers import direct_layers, read_variable_value, set_variable_value
from profilerkit.backend_kit.keras_variables import lacks_weights
from profilerkit.backend_kit.layouts import in_declared_layout

from .keras_layers import list_variables

__all__ = [
    "adapt_to_keras",
    "build_without_values",
    "fill_variables",
    "is_unbuilt",
    "substitute_variables",
    "use_keras_device",
]


def adapt_to_keras(model: nn.Module, inputs: ModelInputs, training: bool = False) -> ModelInputs:
    """Return the inputs as a Keras model takes them, in inference mode or training, which is an argument there.

    Images with the channels first have them last for a model that declares its input so.
    """
    if inputs.function is not None or not is_keras(model):  # the user's own function calls the model
        return inputs
    positional: Sequence[Any] = inputs.args
    if not inputs.kwargs:
        positional = in_declared_layout(positional, read_declared_shapes(model), _find_shape, torch.Tensor.permute)
    args, kwargs = call_arguments(model, positional, inputs.kwargs)
    return ModelInputs(*args, **{"training": training, **kwargs})


def _find_shape(leaf: Any) -> Sequence[int] | None:
    return leaf.shape if isinstance(leaf, torch.Tensor) else None


def use_keras_device(model: nn.Module, device: torch.device) -> AbstractContextManager[Any]:
    """Have Keras make its tensors on a device: it would move tensors elsewhere to the one it prefers."""
    return sys.modules["keras"].device(str(device)) if is_keras(model) else nullcontext()


def is_unbuilt(modules: Iterable[nn.Module]) -> bool:
    """Return whether a Keras layer among the modules lacks variables that its first call would make.

    What is made of other layers has none to make once these have theirs.
    """
    return any(is_keras(module) and not direct_layers(module) and lacks_weights(module) for module in modules)


def build_without_values(model: nn.Module, inputs: ModelInputs) -> None:
    """Have a Keras model make its variables, without values; use inside `preserve`."""
    if not is_keras(model):
        raise WithoutValuesError(
            "the model holds Keras layers that are not built: they have no weights yet, and only a Keras model makes "
            "them without running; call the model once with real inputs before"
        )
    keras = sys.modules["keras"]
    shapes = inputs.map(lambda leaf: leaf.to("meta") if isinstance(leaf, torch.Tensor) else leaf)
    with torch.no_grad(), keras.device("meta"), keras.StatelessScope():
        model(*shapes.args, **shapes.kwargs)


def fill_variables(module: nn.Module) -> None:
    """Give the variables of a Keras layer that have no values zeros; use under a mode of fake tensors."""
    for variable in list_variables(module):
        value = read_variable_value(variable)
        if value is None or value.is_meta:
            zeros = sys.modules["keras"].ops.zeros(variable.shape, variable.dtype)
            is_trained = bool(variable.trainable) and zeros.is_floating_point()
            set_variable_value(variable, nn.Parameter(zeros, requires_grad=is_trained))


def substitute_variables(module: nn.Module, stand_in: Callable[[Any], Any]) -> None:
    """Let other tensors stand in for the values of a Keras layer's variables."""
    for variable in list_variables(module):
        set_variable_value(variable, stand_in(read_variable_value(variable)))
