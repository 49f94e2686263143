"""Where autograd's graph begins and ends: the tensors that a call leaves, and the layers that own its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from ..compat.modules import read_parameters
from ..model.attributes import list_reachable
from ..model.keras_layers import list_reported_weights
from ..model.tensors import has_graph

__all__ = ["find_owners", "list_graph_outputs"]


def list_graph_outputs(output: Any, modules: Iterable[nn.Module]) -> list[torch.Tensor]:
    """Return the tensors with a graph after a call: its results, and tensors in attributes and buffers of modules."""
    tensors = [value for value in list_reachable((output,)) if isinstance(value, torch.Tensor)]
    if torch.is_grad_enabled():
        kept = (value for module in modules for attribute in module.__dict__.values() for value in _open(attribute))
        tensors += [value for value in kept if isinstance(value, torch.Tensor)]
    return list(filter(has_graph, tensors))


def _open(attribute: Any) -> Iterable[Any]:
    """Return the items of a list, a tuple or a dict, as the buffers of a module are; else the value itself."""
    if isinstance(attribute, dict):
        return tuple(dict.values(attribute))  # without code of a derived class
    return attribute if type(attribute) in (list, tuple) else (attribute,)


def find_owners(layers: Sequence[tuple[str, nn.Module]]) -> dict[int, tuple[str, ...]]:
    """Return by the ``id`` of each parameter the paths of the module that owns it, or owned it first."""
    modules: dict[int, nn.Module] = {}
    paths: dict[int, list[str]] = {}
    for path, module in layers:
        modules[id(module)] = module
        paths.setdefault(id(module), []).append(path)
    owners: dict[int, tuple[str, ...]] = {}
    for key, module in reversed(modules.items()):  # of two owners the first is noted last
        keras_weights = [value for _, value in list_reported_weights(module)]
        for parameter in (*read_parameters(module).values(), *keras_weights):
            if parameter is not None:
                owners[id(parameter)] = tuple(paths[key])
    return owners
