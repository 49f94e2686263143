"""Functions that give objects, their slots, classes and variables the content back that they had.

Unchanged content is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType, FunctionType
from typing import Any

from profilerkit.process.containers import refill

__all__ = [
    "MISSING",
    "empty_cache",
    "list_class_attributes",
    "restore_cell",
    "restore_class",
    "restore_global",
    "restore_object",
    "restore_slots",
]

#: The value of a name that is not bound.
MISSING: Any = object()


def restore_object(value: Any, kind: type, attributes: dict[Any, Any]) -> None:
    """Give an object its class, and its attributes in their order."""
    if type(value) is not kind:
        object.__setattr__(value, "__class__", kind)
    refill(value.__dict__, attributes)


def restore_slots(value: Any, attributes: Mapping[str, Any]) -> None:
    """Fill the slots of an object; `MISSING` stands for an empty one."""
    for name, content in attributes.items():
        if getattr(value, name, MISSING) is content:
            continue
        if content is MISSING:
            object.__delattr__(value, name)
        else:
            object.__setattr__(value, name, content)


def restore_cell(cell: CellType, content: Any) -> None:
    """Give a variable that a function shares with another one its value."""
    try:
        is_same = cell.cell_contents is content
    except ValueError:  # it was deleted
        is_same = False
    if not is_same:
        cell.cell_contents = content


def empty_cache(function: Any, misses: int) -> None:
    """Empty the cache of a function of ``functools`` if it has been computed more than so many times.

    The results that were put in are tensors without values, if they come from a trace.
    """
    if function.cache_info().misses != misses:
        function.cache_clear()


def restore_global(namespace: dict[str, Any], name: str, value: Any) -> None:
    """Give a global variable of a module its value, or take it away if the value is `MISSING`."""
    if value is MISSING:
        namespace.pop(name, None)
    elif namespace.get(name, MISSING) is not value:
        namespace[name] = value


def restore_class(kind: type, attributes: Mapping[str, Any]) -> None:
    """Give a class its attributes."""
    current = list_class_attributes(kind)
    for name in current.keys() - attributes.keys():
        delattr(kind, name)
    for name, content in attributes.items():
        if current.get(name, MISSING) is not content:
            setattr(kind, name, content)


def list_class_attributes(kind: type) -> dict[str, Any]:
    """Return the attributes of a class itself, its special methods too, except Python's own (``__module__``)."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("__") or isinstance(value, FunctionType)  # `__call__` of the user
    }
