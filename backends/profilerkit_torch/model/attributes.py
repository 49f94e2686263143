"""The values that attributes of modules lead to: containers, tensors, arrays, and objects with further values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from profilerkit.backend_kit.keras_layers import keras_bookkeeping
from profilerkit.process.containers import CONTAINERS
from profilerkit.process.inner_states import list_state_kinds
from profilerkit.process.object_facts import copy_content, count_items, list_slots

from ..compat.modules import OWN

__all__ = ["EMPTY", "STANDARD", "list_further_attributes", "list_reachable", "list_tensors", "read_slot"]

_HOLDERS = (*CONTAINERS, tuple)
#: The containers that every module has, hooks above all; most are empty.
STANDARD = frozenset(name for name, value in vars(nn.Module()).items() if isinstance(value, CONTAINERS))

#: Types of values that lead nowhere, and further types of attributes of classes.
_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device, torch.Size})
_NOWHERE = _PLAIN | {
    *(type, ModuleType, FunctionType, MethodType, BuiltinFunctionType),
    *(property, staticmethod, classmethod, MemberDescriptorType, GetSetDescriptorType),
}
#: Types of objects with attributes that do not belong to the model, or are restored elsewhere.
_NOT_FOLLOWED = (
    *(nn.Module, torch.Tensor, type, ModuleType, FunctionType, MethodType, torch.jit.ScriptModule),
    torch.fx.Node,  # of an exported program: it has example values, whose sizes may be free
)
#: How deep a cache may be nested, as a dict of lists of objects. An object and its attributes are one step.
_DEPTH = 16
#: Longer containers are vocabularies and the like: they are kept whole, but not looked into.
_LONG = 1000


def list_further_attributes(
    modules: Iterable[nn.Module], has_keras: bool = True
) -> list[tuple[nn.Module, dict[str, Any]]]:
    """Return the modules with attributes that may lead to further tensors, and these: not empty, no plain values.

    A tuple of plain values, as convolutions have five of, is as plain as they are. ``has_keras`` says whether layers of
    Keras' may be among the modules.
    """
    further = []
    for module in modules:
        ignored = keras_bookkeeping(module) if has_keras else ()
        attributes = {}
        for name, value in module.__dict__.items():
            if type(value) in _PLAIN or name in ignored or (name in STANDARD and (not value or name in OWN)):
                continue
            if not (type(value) is tuple and _PLAIN.issuperset(map(type, value))):
                attributes[name] = value
        if attributes:
            further.append((module, attributes))
    return further


def list_reachable(values: Iterable[Any], depth: int = _DEPTH, visited: dict[int, int] | None = None) -> Iterator[Any]:
    """Yield the containers, tensors, arrays and generators of random numbers that values lead to.

    For a plain object its ``__dict__`` is yielded; an object with ``__slots__`` is yielded itself. ``visited`` has by
    ``id`` how far each value was followed: with one ``visited``, several calls follow no value twice.
    """
    visited = {} if visited is None else visited
    for value in values:
        if type(value) in _NOWHERE:  # most are: this comes first
            continue
        if isinstance(value, torch.Tensor):
            yield value
            continue
        if isinstance(value, (torch.Generator, *list_state_kinds())):
            yield value
        holder = _find_holder(value)
        if holder is None or visited.get(id(holder), 0) >= depth:
            continue
        visited[id(holder)] = depth
        yield holder
        if holder is value and hasattr(value, "__dict__"):  # attributes beside items or slots
            yield value.__dict__
        if depth > 1:
            yield from list_reachable(_list_inside(value), depth - 1, visited)


def list_tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """Return the tensors that values are, or lead to; a tensor that several lead to may be there repeatedly."""
    return [value for value in list_reachable(values) if isinstance(value, torch.Tensor)]


def _find_holder(value: Any) -> Any:
    """Return the part of a value that may change; None for a value that is not followed.

    It is a container, the ``__dict__`` of an object, or an object with ``__slots__`` itself.
    """
    if isinstance(value, _HOLDERS):
        return value
    if isinstance(value, _NOT_FOLLOWED):
        return None
    return value if list_slots(type(value)) else getattr(value, "__dict__", None)


def _list_inside(value: Any) -> Iterable[Any]:
    """Return the values that a value leads to: items, of a dict the values, and attributes; some have both."""
    if type(value) in _HOLDERS:
        return _list_items(value)
    items = _list_items(value) if isinstance(value, _HOLDERS) else ()
    filled = [content for slot in list_slots(type(value)) if (content := read_slot(slot, value)) is not EMPTY]
    return [*items, *filled, *_list_items(getattr(value, "__dict__", {}))]


def _list_items(container: Any) -> Iterable[Any]:
    """Return the items of a container, of a dict the values; nothing for a long container."""
    if count_items(container) > _LONG:
        return ()
    content = copy_content(container)
    items: Iterable[Any] = content.values() if isinstance(container, dict) else content
    return items


#: Stands for the content of a slot that is not filled.
EMPTY = object()


def read_slot(slot: Any, owner: Any) -> Any:
    """Return the content of a slot of an object; `EMPTY` if it has none."""
    try:
        return slot.__get__(owner)
    except AttributeError:
        return EMPTY
