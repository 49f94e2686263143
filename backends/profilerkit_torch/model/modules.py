"""What a model's modules hold: a walk over the modules, and over what their attributes lead to."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import torch
from torch import nn

from profilerkit.backend_kit import call_stack as layering
from profilerkit.backend_kit.keras_layers import is_keras, keras_bookkeeping
from profilerkit.process.contents import list_slots

from ..compat import OWN, read_buffers, read_children, read_parameters
from .keras_layers import (
    holds_keras,
    is_mirror,
    keras_buffers,
    keras_layers_in,
    keras_parameters,
    list_keras_layers,
)

__all__ = [
    "CONTAINERS",
    "EMPTY",
    "STANDARD",
    "find_device",
    "further_attributes",
    "in_slot",
    "list_buffers",
    "list_layers",
    "list_modules",
    "list_named_parameters",
    "list_parameters",
    "list_tensors",
    "reachable",
    "set_inference_flags",
]

CONTAINERS = (OrderedDict, dict, list, set, deque)
_HOLDERS = (*CONTAINERS, tuple)
#: What has attributes, but does not belong to the model, or is restored elsewhere.
_NOT_FOLLOWED = (nn.Module, torch.Tensor, type, ModuleType, FunctionType, MethodType, torch.jit.ScriptModule)
#: How deep a cache may be nested, as a dict of lists of objects. An object and its attributes are one step.
_DEPTH = 16
#: Longer containers are vocabularies and the like: they are kept whole, but not looked into.
_LONG = 1000
#: The containers that every module has, hooks above all; most are empty.
STANDARD = frozenset(name for name, value in vars(nn.Module()).items() if isinstance(value, CONTAINERS))
#: Values that lead nowhere, and what the attributes of classes are besides.
_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device, torch.Size})
_NOWHERE = _PLAIN | {
    *(type, ModuleType, FunctionType, MethodType, BuiltinFunctionType),
    *(property, staticmethod, classmethod, MemberDescriptorType, GetSetDescriptorType),
}


def further_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes that may lead to further tensors: not the module's own, not empty, not plain values."""
    ignored = keras_bookkeeping(module)
    return {
        name: value
        for name, value in module.__dict__.items()
        if type(value) not in _PLAIN
        and (name not in STANDARD or (value and name not in OWN))
        and not (ignored and name in ignored)
    }


def reachable(container: Any, depth: int = _DEPTH, visited: dict[int, int] | None = None) -> Iterator[Any]:
    """Yield the containers and tensors that a module's attributes lead to.

    Of plain objects that is their ``__dict__``; one that has ``__slots__`` is yielded itself. ``visited`` has by ``id``
    how far each value was followed: none is followed twice, also in several calls with one ``visited``.
    """
    visited = {} if visited is None else visited
    for value in container.values() if isinstance(container, dict) else container:
        if type(value) in _NOWHERE:
            continue
        if isinstance(value, torch.Tensor):
            yield value
            continue
        if isinstance(value, _HOLDERS):
            holder, inside = value, value
        elif isinstance(value, _NOT_FOLLOWED):
            continue
        else:
            holder, inside = _parts(value)
        if holder is None or visited.get(id(holder), 0) >= depth:
            continue
        visited[id(holder)] = depth
        yield holder
        if holder is value and hasattr(value, "__dict__"):
            yield value.__dict__
        if depth > 1 and len(inside) <= _LONG:
            yield from reachable(inside, depth - 1, visited)


def _parts(value: Any) -> tuple[Any, Any]:
    """Return what of an object may change, and what it leads to."""
    attributes = getattr(value, "__dict__", None)
    slots = list_slots(type(value))
    if not slots:
        return attributes, attributes
    filled = [content for slot in slots if (content := in_slot(slot, value)) is not EMPTY]
    return value, [*filled, *(attributes or {}).values()]


#: Stands for what a slot that is not filled holds.
EMPTY = object()


def in_slot(slot: Any, owner: Any) -> Any:
    """Return what an object has in one of its slots."""
    try:
        return slot.__get__(owner)
    except AttributeError:
        return EMPTY


def set_inference_flags(modules: Iterable[nn.Module]) -> None:
    """Put modules into inference mode by their flag alone: an overridden ``train()`` may have effects of its own."""
    for module in modules:
        if getattr(module, "training", False):  # a frozen script has no such flag
            module.training = False


def list_modules(model: nn.Module) -> list[nn.Module]:
    """Return the model's modules, each once and parents first, as ``model.modules()`` does but without their names."""
    modules: dict[int, nn.Module] = {}
    waiting: list[nn.Module | None] = [model]
    keras = "keras" in sys.modules
    while waiting:
        module = waiting.pop()
        if module is None or id(module) in modules:
            continue
        modules[id(module)] = module
        inside = read_children(module)
        if inside or keras:
            waiting.extend(reversed([*inside.values(), *keras_layers_in(module)]))
    return list(modules.values())


def list_layers(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """Return every module under every path it has, the model itself first, under the empty one."""
    return list_keras_layers(model) if holds_keras(list_modules(model)) else layering.list_layers(model, _children)


def _children(module: nn.Module) -> list[tuple[str, nn.Module]]:
    children = read_children(module)
    return [(name, child) for name, child in children.items() if child is not None] if children else []


def list_named_parameters(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters by name, each once; of Keras' layers what training may change."""
    modules = list_modules(model)
    if not holds_keras(modules):
        yield from model.named_parameters()
        return
    children = ((name, child, module) for module in modules for name, child in read_children(module).items())
    mirrors = {id(child) for name, child, module in children if is_mirror(name, child, module)}
    visited: set[int] = set()
    for module in modules:
        parameters = () if id(module) in mirrors else read_parameters(module).items()
        for name, tensor in (*parameters, *keras_parameters(module)):
            if tensor is not None and id(tensor) not in visited:
                visited.add(id(tensor))
                yield name, tensor


def list_parameters(model: nn.Module) -> list[torch.Tensor]:
    """Return the parameters, each once."""
    modules = list_modules(model)
    if holds_keras(modules):
        return [parameter for _, parameter in list_named_parameters(model)]
    parameters = (tensor for module in modules for tensor in read_parameters(module).values() if tensor is not None)
    return list({id(tensor): tensor for tensor in parameters}.values())


def list_buffers(model: nn.Module) -> list[torch.Tensor]:
    """Return the buffers, and what Keras' layers write to while they run."""
    modules = list_modules(model)
    if not holds_keras(modules):
        return list(model.buffers())
    buffers = [tensor for module in modules for tensor in read_buffers(module).values() if tensor is not None]
    return [*buffers, *(value for module in modules for value in keras_buffers(module))]


def list_tensors(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield the parameters, the buffers, and the tensors that other attributes of the modules lead to.

    Not what a Keras layer has kept of the symbolic call that Keras builds it by.
    """
    modules = list_modules(model)
    for read in (read_parameters, read_buffers):
        for module in modules:
            yield from (tensor for tensor in read(module).values() if tensor is not None)
    for module in modules:
        for value in reachable(further_attributes(module)):
            if isinstance(value, torch.Tensor) and not (value.is_meta and is_keras(module)):
                yield value


def find_device(model: nn.Module) -> torch.device:
    """Return where the model is: the device of its first parameter or buffer, the CPU where it has none."""
    return next((tensor.device for tensor in list_tensors(model)), torch.device("cpu"))
