"""Nested structures: a model may take and return containers of any type."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError, InputError

__all__ = ["apply_transform", "is_tensor", "map_leaves", "require_shallow"]

#: The most levels of nesting that lists, tuples and mappings may have.
DEEPEST = 100


def apply_transform(transform: Callable[[Any, Any], Any], inputs: Any, targets: Any) -> tuple[Any, Any]:
    """Return the inputs and targets that a user's ``transform`` returns; raises `InputError` if it returns no pair.

    Inputs that are a tuple of one are given to it without the tuple.
    """
    alone = isinstance(inputs, tuple) and len(inputs) == 1
    pair = transform(inputs[0] if alone else inputs, targets)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"transform returned {shown(pair)}; return the inputs and the targets: (inputs, targets)")
    return pair[0], pair[1]


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
        mapped = {key: _map_structure(item, function) for key, item in value.items()}
        return mapped if type(value) is dict else _like(value, mapped)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map_structure(item, function) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_map_structure(item, function) for item in value)
    # A tensor may be a dataclass in some backends.
    if is_dataclass(value) and not (is_tensor(value) or isinstance(value, type)):
        return _with_fields(value, function)
    return function(value)


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor or an array of some framework: it has a shape and a dtype.

    They are not read if the class has them: the shape of a nested tensor may raise anything.
    """
    return all(hasattr(type(value), name) or hasattr(value, name) for name in ("shape", "dtype"))


def _with_fields(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a copy of a dataclass instance (also a frozen one) with a function applied to the leaves of its fields."""
    result = copy.copy(value)
    for field in fields(value):
        if hasattr(value, field.name):
            object.__setattr__(result, field.name, _map_structure(getattr(value, field.name), function))
    return result


def _like(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return the items in a mapping of the user's own type, which the model may rely on."""
    try:
        result: Any = copy.copy(mapping)
        for key, item in items.items():
            result[key] = item
    except MemoryError:
        raise
    except Exception:  # a mapping that cannot be changed; the model gets a plain dictionary
        return items
    return result


def require_shallow(name: str, value: Any) -> None:
    """Raise `ArgumentError` for lists, tuples and mappings that are nested too deeply, or contain themselves."""
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        items: dict[int, Any] = {}
        for container in level:
            if isinstance(container, (list, tuple, dict)):
                items |= {id(item): item for item in (container.values() if isinstance(container, dict) else container)}
        level = [item for item in items.values() if isinstance(item, (list, tuple, dict))]
        if not level:
            return
    raise ArgumentError(
        f"{name}={shown(value)} is nested more than {DEEPEST} levels deep; give a structure with fewer levels"
    )
