"""Keras' layers on torch: modules that hold others, and their weights, where torch does not look for them.

Keras calls a layer as torch calls a module, so that hooks for all modules see it. But the layers of a functional model
are in a list of Keras' own, and a weight is read from Keras' variable, not from the module's parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs, WithoutValuesError
from profilerkit.backend_kit import call_stack
from profilerkit.backend_kit.keras_layers import (
    call_arguments,
    direct_layers,
    is_keras,
    is_shipped,
    list_children,
    own_variables,
    read_declared_shapes,
)
from profilerkit.backend_kit.layouts import in_declared_layout

from ..compat import keras_states, keras_value, keras_weights, read_children, set_keras_value

__all__ = [
    "adapt_to_keras",
    "build_without_values",
    "fill_variables",
    "holds_keras",
    "is_mirror",
    "is_unbuilt",
    "list_hidden_layers",
    "list_keras_buffers",
    "list_keras_layers",
    "list_keras_parameters",
    "list_keras_weights",
    "list_trained_by_keras",
    "list_variables",
    "substitute_variables",
    "use_keras_device",
]


def list_hidden_layers(module: nn.Module) -> list[Any]:
    """Return the layers that a Keras layer keeps in a list of its own; none for any other module."""
    return direct_layers(module) if is_keras(module) else []


def holds_keras(modules: Iterable[nn.Module]) -> bool:
    """Return whether any of the modules is a Keras layer."""
    return "keras" in sys.modules and any(map(is_keras, modules))


def list_variables(module: Any) -> Iterator[Any]:
    """Yield the variables that a Keras layer holds itself, the states of its random generators among them."""
    if is_keras(module):
        yield from (*keras_weights(module), *keras_states(module))


def list_keras_parameters(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and value of what training may change in a Keras layer itself."""
    for variable in keras_weights(module) if is_keras(module) else ():
        value = keras_value(variable)
        if value is not None:
            yield variable.path, value


def list_keras_buffers(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield what a Keras layer itself writes to while it runs: statistics, and the states of random generators."""
    values = map(keras_value, keras_states(module) if is_keras(module) else ())
    yield from (value for value in values if value is not None)


def is_mirror(name: str, child: Any, module: nn.Module) -> bool:
    """Return whether a child of a module is where Keras shows torch the weights of a layer, all inner ones included.

    Keras wraps any other module of torch that a layer gets in a layer, which has it as its ``module``.
    """
    return isinstance(child, nn.ParameterDict) and is_keras(module) and name != "module"


def is_unbuilt(modules: Iterable[nn.Module]) -> bool:
    """Return whether a Keras layer among the modules lacks variables that its first call would make.

    What is made of other layers has none to make once these have theirs.
    """
    return any(is_keras(module) and not module.built and not direct_layers(module) for module in modules)


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
        value = keras_value(variable)
        if value is None or value.is_meta:
            zeros = sys.modules["keras"].ops.zeros(variable.shape, variable.dtype)
            is_trained = bool(variable.trainable) and zeros.is_floating_point()
            set_keras_value(variable, nn.Parameter(zeros, requires_grad=is_trained))


def list_keras_layers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return every module under every path it has, the model itself first; Keras' layers as Keras names them."""
    return call_stack.list_layers(model, _list_children)


def _list_children(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    children = [(name, child) for name, child in read_children(module).items() if child is not None]
    if not is_keras(module):
        yield from children
        return
    yield from list_children(module)
    yield from ((name, child) for name, child in children if not (is_mirror(name, child, module) or is_keras(child)))


def list_keras_weights(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and value of the weights of a Keras layer itself; a torch module that it wraps has them itself."""
    if not is_keras(module) or (is_shipped(module) and type(module).__name__ == "TorchModuleWrapper"):
        return
    for name, variable in own_variables(module):
        value = keras_value(variable)
        if value is not None:
            yield name, value


def list_trained_by_keras(model: Any) -> set[int]:
    """Return the ``id`` of each value that training changes, by the lists of the outermost Keras layers."""
    outermost = [model] if is_keras(model) else [layer for layer in model.modules() if is_keras(layer)]
    return {id(keras_value(variable)) for layer in outermost for variable in layer.trainable_variables}


def substitute_variables(module: nn.Module, stand_in: Callable[[Any], Any]) -> None:
    """Let other tensors stand in for the values of a Keras layer's variables."""
    for variable in list_variables(module):
        set_keras_value(variable, stand_in(keras_value(variable)))


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


def list_training_tensors(modules: Iterable[Any]) -> Iterator[Any]:
    """Yield the tensors of the optimizers and metrics that models were compiled with."""
    for model in filter(is_keras, modules):
        for owner in (getattr(model, "optimizer", None), *getattr(model, "metrics", ())):
            for variable in getattr(owner, "variables", None) or ():
                yield variable.value
