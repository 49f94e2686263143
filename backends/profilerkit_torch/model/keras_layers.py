"""What Keras' layers on torch hold, and where: the layers inside them, and the values of their variables.

Keras calls a layer as torch calls a module, so that hooks for all modules see it. But the layers of a functional model
are in a list of Keras' own, and a weight is read from Keras' variable, not from the module's parameters. What a Keras
model needs to be called is in `keras_preparation`.

Of the values of a layer itself there are three lists. A batch norm has gamma and beta, which are trained, and the mean
and the variance, which it writes to::

    list_trainable_values    gamma, beta                    what are parameters in torch
    list_written_values      mean, variance                 what are buffers in torch
    list_reported_weights    gamma, beta, mean, variance    what Keras calls weights, by the names in reports
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from profilerkit.backend_kit import call_stack
from profilerkit.backend_kit.keras_kinds import is_keras, is_shipped
from profilerkit.backend_kit.keras_layers import (
    direct_layers,
    list_children,
    list_own_variables,
    list_seed_states,
    list_stored_variables,
    read_variable_value,
)
from profilerkit.backend_kit.keras_variables import own_variables

from ..compat.modules import read_children

__all__ = [
    "find_trained_ids",
    "holds_keras",
    "is_mirror",
    "list_compiled_tensors",
    "list_hidden_layers",
    "list_keras_layers",
    "list_reported_weights",
    "list_trainable_values",
    "list_variables",
    "list_written_values",
]


def holds_keras(modules: Iterable[nn.Module]) -> bool:
    """Return whether any of the modules is a Keras layer."""
    return "keras" in sys.modules and any(map(is_keras, modules))


# Layers ---------------------------------------------------------------------------------------------------------------


def list_hidden_layers(module: nn.Module) -> list[Any]:
    """Return the layers that a Keras layer keeps in a list of its own; none for any other module."""
    return direct_layers(module) if is_keras(module) else []


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


def is_mirror(name: str, child: Any, module: nn.Module) -> bool:
    """Return whether a child of a module is where Keras shows torch the weights of a layer, all inner ones included.

    Keras wraps any other module of torch that a layer gets in a layer, which has it as its ``module``.
    """
    return isinstance(child, nn.ParameterDict) and is_keras(module) and name != "module"


# Variables and their values -------------------------------------------------------------------------------------------


def list_variables(module: Any) -> Iterator[Any]:
    """Yield all variables of a Keras layer itself, with values or without, for what puts others in their places."""
    if is_keras(module):
        yield from list_own_variables(module)


def list_trainable_values(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and value of what training may change in a Keras layer itself."""
    for variable in list_stored_variables(module, "trainable") if is_keras(module) else ():
        value = read_variable_value(variable)
        if value is not None:
            yield variable.path, value


def list_written_values(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield what a Keras layer itself writes to while it runs: statistics, and the states of random generators."""
    if not is_keras(module):
        return
    for variable in (*list_stored_variables(module, "non_trainable"), *list_seed_states(module)):
        value = read_variable_value(variable)
        if value is not None:
            yield value


def list_reported_weights(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and value of the weights that a report shows for a Keras layer itself, trained or not.

    A recurrent layer has those of its cell. A layer around a torch module has none: the module has them.
    """
    if not is_keras(module) or (is_shipped(module) and type(module).__name__ == "TorchModuleWrapper"):
        return
    for name, variable in own_variables(module):
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
