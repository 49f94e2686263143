"""Lists of the modules, layers and tensors of a model, also of those that Keras layers keep elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from profilerkit.backend_kit import call_stack

from ..compat.modules import read_children, read_parameters
from .keras_layers import holds_keras, is_mirror, list_hidden_layers, list_inner_layers, list_trainable_values

__all__ = [
    "find_mirrors",
    "list_direct_tensors",
    "list_layers",
    "list_modules",
    "list_named_parameters",
    "list_parameters",
    "set_inference_flags",
]


def list_modules(model: nn.Module) -> list[nn.Module]:
    """Return the model's modules, each once and parents first, as ``model.modules()`` does but without their names."""
    modules: dict[int, nn.Module] = {}
    waiting: list[nn.Module | None] = [model]
    may_hold_keras = "keras" in sys.modules
    while waiting:
        module = waiting.pop()
        if module is None or id(module) in modules:
            continue
        modules[id(module)] = module
        children = read_children(module)
        if children or may_hold_keras:  # a leaf of torch, as most modules are, leads nowhere
            waiting.extend(reversed([*children.values(), *list_hidden_layers(module)]))
    return list(modules.values())


def list_layers(model: nn.Module, has_keras: bool | None = None) -> list[tuple[str, nn.Module]]:
    """Return every module under every path it has, the model itself first, under the empty one.

    ``has_keras`` says whether one of them is a layer of Keras', where the caller knows it.
    """
    if has_keras is None:
        has_keras = holds_keras(list_modules(model))
    return call_stack.list_layers(model, list_inner_layers if has_keras else _list_children)


def _list_children(module: nn.Module) -> list[tuple[str, nn.Module]]:
    children = read_children(module)
    return [(name, child) for name, child in children.items() if child is not None] if children else []


def find_mirrors(modules: Iterable[nn.Module]) -> set[int]:
    """Return the ``id`` of each module that only repeats the weights of a Keras layer and of the layers inside it."""
    children = ((name, child, module) for module in modules for name, child in read_children(module).items())
    return {id(child) for name, child, module in children if is_mirror(name, child, module)}


def list_named_parameters(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters by name, each once; for Keras layers the values that training may change."""
    modules = list_modules(model)
    if not holds_keras(modules):
        yield from model.named_parameters()
        return
    mirrors = find_mirrors(modules)
    visited: set[int] = set()
    for module in modules:
        parameters = () if id(module) in mirrors else read_parameters(module).items()
        for name, tensor in (*parameters, *list_trainable_values(module)):
            if tensor is not None and id(tensor) not in visited:
                visited.add(id(tensor))
                yield name, tensor


def list_parameters(model: nn.Module) -> list[torch.Tensor]:
    """Return the parameters, each once."""
    modules = list_modules(model)
    if holds_keras(modules):
        return [parameter for _, parameter in list_named_parameters(model)]
    return list_direct_tensors(modules, read_parameters)


def list_direct_tensors(
    modules: Iterable[nn.Module], read: Callable[[Any], Mapping[str, torch.Tensor | None]]
) -> list[torch.Tensor]:
    """Return the tensors that ``read`` returns for each module, its parameters or its buffers, each tensor once."""
    tensors = {id(tensor): tensor for module in modules for tensor in read(module).values() if tensor is not None}
    return list(tensors.values())


def set_inference_flags(modules: Iterable[nn.Module]) -> None:
    """Put modules into inference mode by their flag alone: an overridden ``train()`` may have effects of its own."""
    for module in modules:
        if getattr(module, "training", False):  # a frozen script has no such flag
            module.training = False
