"""Nested structures: a model may take and return containers of any type."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError, InputError

__all__ = ["is_tensor", "list_leaves", "map_leaves", "require_shallow", "tensors_in"]

#: The most levels of nesting inside a list, tuple or dict.
DEEPEST = 100
_TOO_DEEP = "the structure of the inputs is nested too deep or contains itself; give a flat one"


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor or an array of some framework: it has a shape and a dtype.

    They are not read if the class has them: the shape of a nested tensor may raise anything.
    """
    return all(hasattr(type(value), name) or hasattr(value, name) for name in ("shape", "dtype"))


def _is_record(value: Any) -> bool:
    """Return whether a value is an instance of a dataclass."""
    return is_dataclass(value) and not isinstance(value, type)


def tensors_in(structure: Any, is_wanted: Callable[[Any], bool], around: frozenset[int] = frozenset()) -> Iterator[Any]:
    """Yield every tensor, or other wanted value, in nested tuples, lists, sets, mappings and dataclasses.

    The structure is a result of the model, and may contain itself: ``around`` has the ids of what is around a part.
    """
    parts: Iterable[Any] = ()
    if is_wanted(structure):
        yield structure
    elif isinstance(structure, Mapping):
        parts = structure.values()
    elif isinstance(structure, (list, tuple, set)):
        parts = structure
    elif _is_record(structure):
        parts = [getattr(structure, field.name) for field in fields(structure) if hasattr(structure, field.name)]
    if parts and id(structure) not in around:
        for part in parts:
            yield from tensors_in(part, is_wanted, around | {id(structure)})


def list_leaves(structure: Any) -> list[Any]:
    """Return the leaves to which `map_leaves` applies a function; what contains itself is opened once.

    Raises `InputError` for a structure that is nested too deep.
    """
    try:
        return [*tensors_in(structure, _is_leaf)]
    except RecursionError as error:
        raise InputError(_TOO_DEEP) from error


def _is_leaf(value: Any) -> bool:
    """Return whether a value is no tuple, list, mapping or dataclass; a tensor of some backends is a dataclass."""
    return not (isinstance(value, (Mapping, tuple, list)) or (_is_record(value) and not is_tensor(value)))


def map_leaves(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply ``function`` to the leaves of nested tuples, named tuples, lists, mappings and dataclasses.

    Anything else is a leaf, also a set. Raises `InputError` if they are nested deeper than Python can recurse.
    """
    try:
        return _map_structure(value, function)
    except RecursionError as error:
        raise InputError(_TOO_DEEP) from error


def _map_structure(value: Any, function: Callable[[Any], Any]) -> Any:
    if _is_leaf(value):
        return function(value)
    if isinstance(value, Mapping):
        return _copy_mapping(value, {key: _map_structure(item, function) for key, item in value.items()})
    if isinstance(value, (tuple, list)):
        return _copy_sequence(value, [_map_structure(item, function) for item in value])
    result = copy.copy(value)
    for field in fields(value):
        if hasattr(value, field.name):
            item = _map_structure(getattr(value, field.name), function)
            object.__setattr__(result, field.name, item)  # also of a frozen dataclass
    return result


def _copy_sequence(sequence: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """Return a copy of a list or tuple with other items. It has the user's own type, which the model may rely on."""
    if type(sequence) is list:
        return items
    if isinstance(sequence, list):  # its constructor may take anything, and it may have attributes
        result = copy.copy(sequence)
        list.__setitem__(result, slice(None), items)
        return result
    make = getattr(type(sequence), "_make", type(sequence))  # of a named tuple, or of another one
    return make(items)


def _copy_mapping(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return a copy of a mapping with other items. It has the user's own type, which the model may rely on.

    A mapping whose items cannot be changed, or that cannot be copied, becomes a plain dictionary.
    """
    if type(mapping) is dict or not hasattr(type(mapping), "__setitem__"):
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
    """Return a copy of a mapping: the same values, in storage of its own."""
    if not (isinstance(mapping, dict) or hasattr(type(mapping), "__copy__")):
        # `copy.copy` would share the attribute that holds the items; a deep copy that takes the values as copied
        # already does not.
        return copy.deepcopy(mapping, {id(value): value for value in mapping.values()})
    result: Any = copy.copy(mapping)
    if getattr(mapping, "__dict__", None) is mapping:  # its keys are its attributes: ``self.__dict__ = self``
        result.__dict__ = result
    return result


def require_shallow(name: str, value: Any) -> None:
    """Raise `ArgumentError` for lists, tuples and dicts that are nested too deeply, or contain themselves."""
    level = [value]
    for _ in range(DEEPEST + 2):  # the value itself is no level, and the last one may have containers no more
        # Each container once: a list may contain itself any number of times.
        containers = {id(item): item for item in level if isinstance(item, (list, tuple, dict))}.values()
        if not containers:
            return
        level = [item for one in containers for item in (one.values() if isinstance(one, dict) else one)]
    raise ArgumentError(
        f"{name}={shown(value)} is nested more than {DEEPEST} levels deep; give a structure with fewer levels"
    )
