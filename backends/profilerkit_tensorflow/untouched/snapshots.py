"""The contents of objects, containers and classes at one time: a record for each kind, which restores the content.

Except for arrays, unchanged contents are not written. Containers are read and written by the methods of their built-in
classes: the methods of a subclass may refuse, or do more.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType
from typing import Any, NamedTuple, Protocol

from profilerkit.process.containers import refill
from profilerkit.process.restoring import Step

__all__ = [
    "MISSING",
    "CacheSnapshot",
    "CellSnapshot",
    "ClassSnapshot",
    "ContainerSnapshot",
    "GlobalSnapshot",
    "ObjectSnapshot",
    "SlotsSnapshot",
    "Snapshot",
    "StateSnapshot",
    "list_class_attributes",
]

#: The value of a name that is not bound.
MISSING: Any = object()


class Snapshot(Protocol):
    """The content of an object at one time."""

    def restore(self) -> None:
        """Restore the content."""


class ObjectSnapshot(NamedTuple):
    """An object with its class, and its attributes in their order."""

    value: Any
    kind: type
    attributes: dict[Any, Any]

    def restore(self) -> None:
        """Give the object its class and its attributes back."""
        if type(self.value) is not self.kind:
            object.__setattr__(self.value, "__class__", self.kind)
        refill(self.value.__dict__, self.attributes)


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


class ContainerSnapshot(NamedTuple):
    """A dict, set, list or deque with its content."""

    container: Any
    content: Any

    def restore(self) -> None:
        """Give the container its content back."""
        refill(self.container, self.content)


class StateSnapshot(NamedTuple):
    """What puts back the content of an array or a buffer of bytes, or the state of a generator of random numbers."""

    step: Step

    def restore(self) -> None:
        """Put it back."""
        self.step()


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
        """Empty the cache if results were put in: results of a trace are tensors without values."""
        if self.function.cache_info().misses != self.misses:
            self.function.cache_clear()


class GlobalSnapshot(NamedTuple):
    """A global variable of a module, with its value; `MISSING` if there was no variable."""

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
    """Return the attributes of a class itself, except Python's own (``__name__``)."""
    return {name: value for name, value in vars(kind).items() if not name.startswith("__")}
