"""What objects, containers, classes and the like held at one time: a record for each kind, which puts it back.

But for arrays, nothing is written where nothing has changed. Containers are read and written by the methods of their
built-in classes: those of a subclass may refuse, or do more.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import is_
from types import CellType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from profilerkit.process.restoring import assign_dict

__all__ = [
    "MISSING",
    "ArraySnapshot",
    "BytesSnapshot",
    "CacheSnapshot",
    "CellSnapshot",
    "ClassSnapshot",
    "DictSnapshot",
    "GeneratorSnapshot",
    "GlobalSnapshot",
    "ObjectSnapshot",
    "SequenceSnapshot",
    "SetSnapshot",
    "SlotsSnapshot",
    "Snapshot",
    "list_class_attributes",
    "take_container",
]

#: The value of a name that is not bound.
MISSING: Any = object()
_CONTAINERS = (list, OrderedDict, dict, set, deque)


class Snapshot(Protocol):
    """What something held at one time."""

    def restore(self) -> None:
        """Put it back."""


class ObjectSnapshot(NamedTuple):
    """An object with its class, and its attributes in their order."""

    value: Any
    kind: type
    names: tuple[Any, ...]
    values: tuple[Any, ...]

    def restore(self) -> None:
        """Give the object its class and its attributes back."""
        if type(self.value) is not self.kind:
            object.__setattr__(self.value, "__class__", self.kind)
        attributes = self.value.__dict__
        if not _holds_same(attributes, attributes.values(), self.names, self.values):
            assign_dict(attributes, dict(zip(self.names, self.values, strict=True)))


class SlotsSnapshot(NamedTuple):
    """An object with the content of its slots; `MISSING` for an empty one."""

    value: Any
    attributes: Mapping[str, Any]

    def restore(self) -> None:
        """Fill the slots as they were."""
        for name, content in self.attributes.items():
            if getattr(self.value, name, MISSING) is content:
                continue
            if content is MISSING:
                object.__delattr__(self.value, name)
            else:
                object.__setattr__(self.value, name, content)


class DictSnapshot(NamedTuple):
    """A dict with its content, in its order."""

    container: dict[Any, Any]
    keys: tuple[Any, ...]
    values: tuple[Any, ...]

    @classmethod
    def take(cls, container: dict[Any, Any]) -> DictSnapshot:
        """Return what a dict holds now."""
        if type(container) is dict:
            return cls(container, tuple(container), tuple(container.values()))
        if isinstance(container, OrderedDict):
            keys = tuple(OrderedDict.__iter__(container))
            return cls(container, keys, tuple(dict.__getitem__(container, key) for key in keys))
        return cls(container, tuple(dict.__iter__(container)), tuple(dict.values(container)))

    def restore(self) -> None:
        """Give the dict its content back, but for a weak reference as its key whose object is gone."""
        now = DictSnapshot.take(self.container)
        if _holds_same(now.keys, now.values, self.keys, self.values):
            return
        pairs = zip(self.keys, self.values, strict=True)
        alive = {key: value for key, value in pairs if not (isinstance(key, weakref.ref) and key() is None)}
        assign_dict(self.container, alive, _find_base(self.container))


class SequenceSnapshot(NamedTuple):
    """A list or a deque with its items."""

    container: Any
    items: tuple[Any, ...]

    def restore(self) -> None:
        """Give the container its items back."""
        base = _find_base(self.container)
        length = base.__len__(self.container)
        if length == len(self.items) and all(map(is_, base.__iter__(self.container), self.items)):
            return
        if base is list:
            list.__setitem__(self.container, slice(None), self.items)
        else:
            base.clear(self.container)
            base.extend(self.container, self.items)


class SetSnapshot(NamedTuple):
    """A set with its members."""

    container: set[Any]
    members: frozenset[Any]

    def restore(self) -> None:
        """Give the set its members back."""
        if not set.__eq__(self.container, self.members):
            set.clear(self.container)
            set.update(self.container, self.members)


def take_container(container: Any) -> DictSnapshot | SequenceSnapshot | SetSnapshot:
    """Return what a dict, set, list or deque holds now."""
    base = _find_base(container)
    if issubclass(base, dict):
        return DictSnapshot.take(container)
    if base is set:
        return SetSnapshot(container, frozenset(set.__iter__(container)))
    return SequenceSnapshot(container, tuple(base.__iter__(container)))


class ArraySnapshot(NamedTuple):
    """An array of numpy's with its numbers."""

    array: NDArray[Any]
    content: NDArray[Any]

    def restore(self) -> None:
        """Give the array its numbers back."""
        np.copyto(self.array, self.content)


class BytesSnapshot(NamedTuple):
    """A ``bytearray`` with its bytes."""

    array: bytearray
    content: bytes

    def restore(self) -> None:
        """Give the array its bytes back."""
        if self.array != self.content:
            self.array[:] = self.content


class CellSnapshot(NamedTuple):
    """A variable that a function shares with another one, with its value."""

    cell: CellType
    content: Any

    def restore(self) -> None:
        """Give the variable its value back."""
        try:
            is_same = self.cell.cell_contents is self.content
        except ValueError:  # it was deleted
            is_same = False
        if not is_same:
            self.cell.cell_contents = self.content


class CacheSnapshot(NamedTuple):
    """A function of ``functools.cache`` or ``lru_cache``, and how often it has been computed."""

    function: Any
    misses: int

    def restore(self) -> None:
        """Empty the cache if results were put in: those of a trace are tensors without values."""
        if self.function.cache_info().misses != self.misses:
            self.function.cache_clear()


class GeneratorSnapshot(NamedTuple):
    """The state of a generator of random numbers, and the function that sets it."""

    set_state: Callable[[Any], Any]
    state: Any

    def restore(self) -> None:
        """Set the state."""
        self.set_state(self.state)


class GlobalSnapshot(NamedTuple):
    """A global variable of a module, with its value; `MISSING` for one that there was not."""

    namespace: dict[str, Any]
    name: str
    value: Any

    def restore(self) -> None:
        """Give the variable its value back, or take it away."""
        if self.value is MISSING:
            self.namespace.pop(self.name, None)
        elif self.namespace.get(self.name, MISSING) is not self.value:
            self.namespace[self.name] = self.value


class ClassSnapshot(NamedTuple):
    """A class with its attributes."""

    kind: type
    attributes: Mapping[str, Any]

    def restore(self) -> None:
        """Give the class its attributes back."""
        current = list_class_attributes(self.kind)
        for name in current.keys() - self.attributes.keys():
            delattr(self.kind, name)
        for name, content in self.attributes.items():
            if current.get(name, MISSING) is not content:
                setattr(self.kind, name, content)


def list_class_attributes(kind: type) -> dict[str, Any]:
    """Return the attributes of a class itself, but for those that Python names."""
    return {name: value for name, value in vars(kind).items() if not name.startswith("__")}


def _holds_same(
    now_keys: Collection[Any], now_values: Iterable[Any], keys: Collection[Any], values: Iterable[Any]
) -> bool:
    """Return whether the keys and the values are the same objects as before, in the same order."""
    return len(now_keys) == len(keys) and all(map(is_, now_values, values)) and all(map(is_, now_keys, keys))


def _find_base(container: Any) -> Any:
    """Return the built-in class of a container."""
    return next(kind for kind in _CONTAINERS if isinstance(container, kind))
