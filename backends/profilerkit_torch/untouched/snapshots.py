"""What modules, their classes and the objects that they hold had before, and how that is put back."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import is_, itemgetter
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit.process.restoring import assign_dict

from ..model.attributes import CONTAINERS, EMPTY, STANDARD, list_reachable, read_slot

__all__ = ["ClassSnapshot", "ModuleSnapshot", "SlotsSnapshot", "copy_container", "list_own_classes", "refill"]

#: The flag of a class that Python code has made.
_MADE_BY_A_STATEMENT = 1 << 9
_NOT_OWN = frozenset(("torch", "keras", "numpy", *sys.stdlib_module_names)) - {"__main__"}
_read_standard = itemgetter(*STANDARD)


def list_own_classes(modules: Iterable[nn.Module], further_attributes: Iterable[dict[str, Any]] = ()) -> list[type]:
    """Return the classes of modules, and of what their attributes are, where some models keep tensors between calls.

    Not those of torch and Python.
    """
    kinds = set(map(type, modules))
    for attributes in further_attributes:
        kinds.update(map(type, attributes.values()))
    classes = {base for kind in kinds for base in kind.__mro__ if base.__flags__ & _MADE_BY_A_STATEMENT}
    return [cls for cls in classes if cls.__module__.partition(".")[0] not in _NOT_OWN]


class ClassSnapshot:
    """The attributes of a class of the user's, and the contents of the containers among them."""

    __slots__ = ("attributes", "cls", "contents")

    def __init__(self, cls: type) -> None:
        self.cls: type = cls
        self.attributes: dict[str, Any] = dict(vars(cls))
        # Special names are Python's: the annotations and the fields of a dataclass are many, and no cache.
        values = list_reachable([value for name, value in self.attributes.items() if name[:2] != "__"])
        self.contents: list[tuple[Any, Any]] = [
            (value, copy_container(value)) for value in values if isinstance(value, CONTAINERS)
        ]

    def restore(self) -> None:
        """Put back what has changed."""
        current = vars(self.cls)
        for name in current.keys() - self.attributes.keys():
            type.__delattr__(self.cls, name)
        for name, value in self.attributes.items():
            if current.get(name) is not value:
                type.__setattr__(self.cls, name, value)
        for container, content in self.contents:
            refill(container, content)


class SlotsSnapshot:
    """What an object keeps in the ``__slots__`` of its class."""

    __slots__ = ("owner", "values")

    def __init__(self, owner: Any, slots: Iterable[Any]) -> None:
        self.owner: Any = owner
        self.values: list[tuple[Any, Any]] = [(slot, read_slot(slot, owner)) for slot in slots]

    def restore(self) -> None:
        """Put back what has changed."""
        for slot, value in self.values:
            if read_slot(slot, self.owner) is value:
                continue
            if value is EMPTY:
                slot.__delete__(self.owner)
            else:
                slot.__set__(self.owner, value)


class ModuleSnapshot:
    """The attributes of one module, its own containers with their contents, and the state of its random generators.

    Args:
        module: The module.
        further_attributes: Those of its attributes that are no plain values; see `attributes.list_further_attributes`.
    """

    __slots__ = ("attributes", "containers", "contents", "generators", "lengths", "module", "training", "type")

    def __init__(self, module: nn.Module, further_attributes: dict[str, Any]) -> None:
        self.module: nn.Module = module
        self.type: type[nn.Module] = type(module)
        self.training: Any = getattr(module, "training", None)
        self.attributes: dict[str, Any] = dict(module.__dict__)
        self.containers: tuple[Any, ...]
        self.lengths: tuple[int, ...]
        self.containers, self.lengths = self._list_containers()
        self.contents: list[tuple[Any, Any]] = [
            (container, copy_container(container)) for container in self.containers if container
        ]
        self.generators: list[_GeneratorState] = [
            state for value in further_attributes.values() if (state := _read_generator(value)) is not None
        ]

    def _list_containers(self) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Return the containers that every module has, with their lengths; nearly all modules take the short way."""
        if not isinstance(self.module, torch.jit.ScriptModule):
            try:
                containers = _read_standard(self.attributes)
                return containers, tuple(map(len, containers))
            except (KeyError, TypeError):  # some are missing, or are none
                pass
        containers = tuple(value for name in STANDARD if isinstance(value := self.attributes.get(name), CONTAINERS))
        return containers, tuple(map(len, containers))

    def restore(self) -> None:
        """Put back what has changed."""
        for generator in self.generators:
            generator.restore(generator.state)
        if type(self.module) is not self.type:
            self.module.__class__ = self.type
        refill(self.module.__dict__, self.attributes)
        if tuple(map(len, self.containers)) != self.lengths:
            for container, length in zip(self.containers, self.lengths, strict=True):
                if not length:
                    container.clear()
        for container, content in self.contents:
            refill(container, content)
        # A scripted module keeps its flag elsewhere, and some modules have none.
        if self.training is not None and self.module.training != self.training:
            self.module.training = self.training


class _GeneratorState(NamedTuple):
    """The state of a generator of random numbers, and what gives it a state."""

    restore: Callable[[Any], Any]
    state: Any


def _read_generator(value: Any) -> _GeneratorState | None:
    """Return the state of a generator of torch's, Python's or numpy's; None for any other value."""
    if isinstance(value, torch.Generator):
        return _GeneratorState(value.set_state, value.get_state())
    if isinstance(value, random.Random):
        return _GeneratorState(value.setstate, value.getstate())
    if hasattr(type(value), "bit_generator"):
        numbers = value.bit_generator
        return _GeneratorState(partial(setattr, numbers, "state"), numbers.state)
    return None


def copy_container(container: Any) -> Any:
    """Return a plain copy of a container, not of what is in it."""
    return dict(container) if isinstance(container, dict) else list(container)


def _same_items(current: dict[Any, Any], saved: dict[Any, Any]) -> bool:
    """Return whether two mappings have the same objects in the same order: no ``__eq__`` is called."""
    same_keys = len(current) == len(saved) and all(map(is_, current, saved))
    return same_keys and all(map(is_, current.values(), saved.values()))


def refill(container: Any, content: Any) -> None:
    """Give a container its content back, by the methods of its base class: a subclass may refuse to be changed."""
    if isinstance(container, dict):
        if _same_items(container, content):
            return
    elif len(container) == len(content) and all(map(is_, container, content)):
        return
    kind: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))
    if issubclass(kind, dict):
        assign_dict(container, content, kind)
    elif kind is list:
        list.__setitem__(container, slice(None), content)
    else:
        kind.clear(container)
        (kind.extend if kind is deque else kind.update)(container, content)
