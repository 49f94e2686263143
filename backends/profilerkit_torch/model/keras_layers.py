"""Keras layers on torch: where their weights are, and how a Keras model on torch is called.

Keras calls a layer as torch calls a module, so that hooks for all modules see it. But the layers of a functional model
are in a list of Keras, and a weight is read from a Keras variable, not from the module's parameters.

There are three lists of the values of a layer itself. A batch norm has gamma and beta, which are trained, and the mean
and the variance, which it writes to::

    list_trainable_values    gamma, beta                    parameters in the words of torch
    list_written_values      mean, variance                 buffers in the words of torch
    list_reported_weights    gamma, beta, mean, variance    weights in the words of Keras, by the names in reports
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs, WithoutValuesError
from profilerkit.backend_kit.keras_calls import call_arguments, read_declared_shapes
from profilerkit.backend_kit.keras_children import list_children
from profilerkit.backend_kit.keras_kinds import is_keras, is_shipped
from profilerkit.backend_kit.keras_layers import (
    direct_layers,
    list_own_variables,
    list_seed_states,
    list_stored_variables,
    read_variable_value,
    set_variable_value,
)
from profilerkit.backend_kit.keras_variables import lacks_weights, name_own_weights
from profilerkit.backend_kit.layouts import in_declared_layout

from ..compat.modules import read_children

__all__ = [
    "adapt_to_keras",
    "build_without_values",
    "fill_variables",
    "find_trained_ids",
    "holds_keras",
    "is_mirror",
    "is_unbuilt",
    "list_compiled_tensors",
    "list_hidden_layers",
    "list_inner_layers",
    "list_reported_weights",
    "list_trainable_values",
    "list_written_values",
    "substitute_variables",
    "use_keras_device",
]


def holds_keras(modules: Iterable[nn.Module]) -> bool:
    """Return whether any of the modules is a Keras layer."""
    return "keras" in sys.modules and any(map(is_keras, modules))


# Layers ---------------------------------------------------------------------------------------------------------------


def list_hidden_layers(module: nn.Module) -> list[Any]:
    """Return the layers that a Keras layer keeps in a list of its own; none for any other module."""
    return direct_layers(module) if is_keras(module) else []


def list_inner_layers(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules directly inside a module by name; Keras' layers as Keras names them."""
    children = [(name, child) for name, child in read_children(module).items() if child is not None]
    if not is_keras(module):
        yield from children
        return
    yield from list_children(module)
    yield from ((name, child) for name, child in children if not (is_mirror(name, child, module) or is_keras(child)))


def is_mirror(name: str, child: Any, module: nn.Module) -> bool:
    """Return whether a child of a module is where Keras shows torch the weights of a layer, all inner ones included.

    Keras wraps any other module of torch that a layer gets in a layer, which has it as its ``module``.
    """
    return isinstance(child, nn.ParameterDict) and is_keras(module) and name != "module"


# Variables and their values -------------------------------------------------------------------------------------------


def list_variables(module: Any) -> Iterator[Any]:
    """Yield all variables of a Keras layer itself, with or without values, so that they can be replaced."""
    if is_keras(module):
        yield from list_own_variables(module)


def list_trainable_values(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and value of each value of a Keras layer itself that training may change."""
    for variable in list_stored_variables(module, "trainable") if is_keras(module) else ():
        value = read_variable_value(variable)
        if value is not None:
            yield variable.path, value


def list_written_values(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield the values that a Keras layer itself writes to while it runs: statistics, and states of generators."""
    if not is_keras(module):
        return
    for variable in (*list_stored_variables(module, "non_trainable"), *list_seed_states(module)):
        value = read_variable_value(variable)
        if value is not None:
            yield value


def list_reported_weights(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and value of the weights that a report shows for a Keras layer itself, trained or not.

    A recurrent layer has the weights of its cell. A layer around a torch module has none: the module has them.
    """
    if not is_keras(module) or (is_shipped(module) and type(module).__name__ == "TorchModuleWrapper"):
        return
    for name, variable in name_own_weights(module):
        value = read_variable_value(variable)
        if value is not None:
            yield name, value


def find_trained_ids(model: Any) -> set[int]:
    """Return the ``id`` of each value that training changes, by the lists of the outermost Keras layers."""
    outermost = [model] if is_keras(model) else [layer for layer in model.modules() if is_keras(layer)]
    return {id(read_variable_value(variable)) for layer in outermost for variable in layer.trainable_variables}


def list_compiled_tensors(modules: Iterable[Any]) -> Iterator[Any]:
    """Yield the tensors of the optimizers and metrics that models were compiled with."""
    for model in filter(is_keras, modules):
        for owner in (getattr(model, "optimizer", None), *getattr(model, "metrics", ())):
            for variable in getattr(owner, "variables", None) or ():
                yield variable.value


# Calling a Keras model: its inputs, its device, and variables that stand in for its own -------------------------------


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


def is_unbuilt(modules: Sequence[nn.Module]) -> bool:
    """Return whether a Keras layer among the modules, a model first, lacks variables that its first call would make.

    In a model that is built, an outer layer may have built the layers inside another one, and not this one itself.
    """
    is_built = is_keras(modules[0]) and modules[0].built
    return any(is_keras(part) and lacks_weights(part) and not (is_built and part.weights) for part in modules)


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


def substitute_variables(modules: Iterable[nn.Module], stand_in: Callable[[Any], Any]) -> None:
    """Let other tensors stand in for the values of Keras layers' variables, each once: two layers may hold the same."""
    variables = {id(variable): variable for module in modules for variable in list_variables(module)}
    for variable in variables.values():
        set_variable_value(variable, stand_in(read_variable_value(variable)))
