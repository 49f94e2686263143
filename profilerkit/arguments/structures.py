"""Nested structures: what a model may be given, and give back, in whatever types its author likes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..error_text import shown
from ..errors import InputError

__all__ = ["map_leaves", "transformed"]


def transformed(transform: Callable[[Any, Any], Any], inputs: Any, targets: Any) -> tuple[Any, Any]:
    """Return the inputs and targets that a user's ``transform`` makes of a batch; `InputError` for anything else."""
    made = transform(inputs, targets)
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        raise InputError(f"transform returned {shown(made)}; return the inputs and the targets: (inputs, targets)")
    return made[0], made[1]


def map_leaves(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply ``function`` to the leaves of nested tuples, named tuples, lists, mappings and dataclasses.

    Raises `InputError` where they are nested deeper than Python can follow.
    """
    try:
        return _mapped(value, function)
    except RecursionError as error:
        raise InputError("the structure of the inputs is nested too deep, or holds itself; give a flat one") from error


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        mapped = {key: _mapped(item, function) for key, item in value.items()}
        return mapped if type(value) is dict else _like(value, mapped)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(item, function) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(item, function) for item in value)
    # One may be a dataclass, as some backend's are; the shape of a nested one may raise anything.
    is_tensor = all(hasattr(type(value), name) or hasattr(value, name) for name in ("shape", "dtype"))
    if is_dataclass(value) and not (is_tensor or isinstance(value, type)):
        return _with_fields(value, function)
    return function(value)


def _with_fields(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a copy of a dataclass instance, a frozen one too, with a function applied to the leaves of its fields."""
    twin = copy.copy(value)
    for each in fields(value):
        if hasattr(value, each.name):
            object.__setattr__(twin, each.name, _mapped(getattr(value, each.name), function))
    return twin


def _like(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return the items in a copy of a mapping of the user's own type, which its model may rely on."""
    try:
        twin: Any = copy.copy(mapping)
        for key, item in items.items():
            twin[key] = item
    except Exception:  # a mapping that will not be changed; its model gets a plain one
        return items
    return twin
