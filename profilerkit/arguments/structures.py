"""Nested structures: a model may take and return containers of any type."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError, InputError

__all__ = ["is_tensor", "map_leaves", "require_shallow", "tensors_in"]

#: The most levels of nesting that lists, tuples and dicts may have.
DEEPEST = 100


def map_leaves(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply ``function`` to the leaves of nested tuples, named tuples, lists, mappings and dataclasses.

    Raises `InputError` if they are nested deeper than Python can recurse.
    """
    try:
        return _map_structure(value, function)
    except RecursionError as error:
        raise InputError(
            "the structure of the inputs is nested too deep or contains itself; give a flat one"
        ) from error


def _map_structure(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        items = {key: _map_structure(item, function) for key, item in value.items()}
        return items if type(value) is dict else _copy_mapping(value, items)
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple takes its items one by one
        return type(value)(*(_map_structure(item, function) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_map_structure(item, function) for item in value)
    # A tensor may be a dataclass in some backends.
    if is_dataclass(value) and not (is_tensor(value) or isinstance(value, type)):
        return _map_fields(value, function)
    return function(value)


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor or an array of some framework: it has a shape and a dtype.

    They are not read if the class has them: the shape of a nested tensor may raise anything.
    """
    return all(hasattr(type(value), name) or hasattr(value, name) for name in ("shape", "dtype"))


def tensors_in(structure: Any, is_tensor: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield every tensor in a nested structure: tuples, lists, sets, mappings and dataclasses."""
    if is_tensor(structure):
        yield structure
        return
    parts: Iterable[Any] = ()
    if isinstance(structure, Mapping):
        parts = structure.values()
    elif isinstance(structure, (list, tuple, set)):
        parts = structure
    elif hasattr(structure, "__dataclass_fields__"):
        parts = [getattr(structure, name, None) for name in structure.__dataclass_fields__]
    for part in parts:
        yield from tensors_in(part, is_tensor)


def _map_fields(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a copy of a dataclass instance (also a frozen one) with a function applied to the leaves of its fields."""
    result = copy.copy(value)
    for field in fields(value):
        if hasattr(value, field.name):
            object.__setattr__(result, field.name, _map_structure(getattr(value, field.name), function))
    return result


def _copy_mapping(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return a copy of a mapping with other items. It has the user's own type, which the model may rely on.

    A mapping whose items cannot be changed, or that cannot be copied, becomes a plain dictionary.
    """
    if not hasattr(type(mapping), "__setitem__"):
        return items
    try:
        result = _copy_storage(mapping)
        for key, item in items.items():
            result[key] = item
    except MemoryError:
        raise
    except Exception:  # whatever a type of the user's raises
        return items
    return result


def _copy_storage(mapping: Mapping[Any, Any]) -> Any:
    """Return a copy of a mapping that shares its values and nothing in which it holds them."""
    if isinstance(mapping, dict) or hasattr(type(mapping), "__copy__"):
        result: Any = copy.copy(mapping)
        if getattr(mapping, "__dict__", None) is mapping:  # its keys are its attributes: ``self.__dict__ = self``
            result.__dict__ = result
        return result
    # Its items are in an attribute that `copy.copy` would share with the user's mapping, which would then change too.
    values = list(mapping.values())
    return copy.deepcopy(mapping, {id(value): value for value in values})


def require_shallow(name: str, value: Any) -> None:
    """Raise `ArgumentError` for lists, tuples and dicts that are nested too deeply, or contain themselves."""
    level = [value]
    for _ in range(DEEPEST + 2):
        # Each once: a list may contain itself any number of times.
        containers = {id(item): item for item in level if isinstance(item, (list, tuple, dict))}
        if not containers:
            return
        level = []
        for item in containers.values():
            level += item.values() if isinstance(item, dict) else item
    raise ArgumentError(
        f"{name}={shown(value)} is nested more than {DEEPEST} levels deep; give a structure with fewer levels"
    )
