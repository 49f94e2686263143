"""Snapshots of modules, of their classes and of objects in them; each can restore its contents."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, compress
from operator import is_, itemgetter, methodcaller
from typing import Any

import torch
from torch import nn

from profilerkit.process.containers import CONTAINERS, refill
from profilerkit.process.inner_states import note_inner_state
from profilerkit.process.object_facts import copy_content, list_slots
from profilerkit.process.restoring import Step, call_each, for_each

from ..model.attributes import EMPTY, STANDARD, list_reachable, list_tensors, read_slot
from ..model.inventory import Inventory

__all__ = [
    "SlotsSnapshot",
    "list_class_tensors",
    "list_own_classes",
    "note_class",
    "note_modules",
    "note_slots",
    "note_states",
]

#: The flag of a class that Python code has made: ``Py_TPFLAGS_HEAPTYPE``.
_MADE_BY_A_STATEMENT = 1 << 9
_NOT_OWN = frozenset(("torch", "keras", "numpy", *sys.stdlib_module_names)) - {"__main__"}
_read_standard = itemgetter(*STANDARD)
_CONTAINER_TYPES = frozenset(CONTAINERS)


def list_own_classes(inventory: Inventory, with_attributes: bool = False) -> list[type]:
    """Return the classes of modules, and of their attributes, in which some models keep tensors between calls.

    Classes of torch and Python are left out.
    """
    kinds: set[type] = set(inventory.kinds)
    for _, attributes in inventory.further_attributes if with_attributes else ():
        kinds.update(map(type, attributes.values()))
    classes = {base for kind in kinds for base in kind.__mro__ if base.__flags__ & _MADE_BY_A_STATEMENT}
    return [cls for cls in classes if cls.__module__.partition(".")[0] not in _NOT_OWN]


def list_class_tensors(inventory: Inventory) -> list[torch.Tensor]:
    """Return the tensors that attributes of the user's classes lead to: they are in no inventory."""
    attributes = [vars(cls).items() for cls in list_own_classes(inventory, with_attributes=True)]
    values = [value for named in attributes for name, value in named if name[:2] != "__"]
    return list_tensors(values)


def note_class(cls: type) -> Step:
    """Note the attributes of a class of the user's, with the objects that they lead to; return what restores both."""
    attributes = dict(vars(cls))
    # Special names are Python's: the annotations and the fields of a dataclass are many, and no cache.
    values = [*list_reachable([value for name, value in attributes.items() if name[:2] != "__"])]
    contents = [(value, copy_content(value)) for value in values if isinstance(value, CONTAINERS)]
    inner = [*note_slots(values), *note_states(values)]

    def restore() -> None:
        current = vars(cls)
        for name in current.keys() - attributes.keys():
            type.__delattr__(cls, name)
        for name, value in attributes.items():
            if current.get(name) is not value:
                type.__setattr__(cls, name, value)
        for_each(refill, contents)
        call_each(inner)

    return restore


class SlotsSnapshot:
    """The contents of an object's ``__slots__``."""

    __slots__ = ("owner", "values")

    def __init__(self, owner: Any) -> None:
        self.owner: Any = owner
        self.values: list[tuple[Any, Any]] = [(slot, read_slot(slot, owner)) for slot in list_slots(type(owner))]

    def restore(self) -> None:
        """Put back what has changed."""
        for slot, value in self.values:
            if read_slot(slot, self.owner) is value:
                continue
            if value is EMPTY:
                slot.__delete__(self.owner)
            else:
                slot.__set__(self.owner, value)


def note_slots(values: Iterable[Any]) -> list[Step]:
    """Return the steps that put back the contents of ``__slots__``, of the values whose classes have some."""
    values = list(values)
    kinds = {kind for kind in set(map(type, values)) if list_slots(kind)}  # asked of each class once: there are few
    return [SlotsSnapshot(value).restore for value in values if type(value) in kinds]


def note_states(values: Iterable[Any]) -> list[Step]:
    """Return the steps that put back the arrays, buffers and generators of random numbers among values."""
    return [step for value in values if (step := _note_state(value)) is not None]


def _note_state(value: Any) -> Step | None:
    if isinstance(value, torch.Generator):
        return partial(value.set_state, value.get_state())
    return note_inner_state(value)


def note_modules(inventory: Inventory) -> list[Step]:
    """Note the attributes of a model's modules, with the contents of their own containers; return what restores both.

    Nearly all modules are unchanged after a pass. So all modules of a model are compared at once, by functions in C.
    """
    modules = inventory.modules
    types: list[type[nn.Module]] = [*map(type, modules)]
    flags = [getattr(module, "training", None) for module in modules]
    attributes: list[dict[str, Any]] = [*map(dict, map(vars, modules))]
    containers = _list_containers(attributes)
    lengths = [*map(len, containers)]
    contents = [(container, copy_content(container)) for container in compress(containers, lengths)]

    def restore_types() -> None:
        kinds = zip(modules, types, strict=True)
        for_each(setattr, [(module, "__class__", kind) for module, kind in kinds if type(module) is not kind])

    def restore_flags() -> None:
        """Put modules back into training mode; a scripted module keeps that flag elsewhere, and some have none."""
        noted = [(module, flag) for module, flag in zip(modules, flags, strict=True) if flag is not None]
        changed = [(module, flag) for module, flag in noted if getattr(module, "training", flag) != flag]
        for_each(setattr, [(module, "training", flag) for module, flag in changed])

    def restore_attributes() -> None:
        current = [*map(vars, modules)]
        if not _are_same(current, attributes):
            for_each(refill, zip(current, attributes, strict=True))

    def empty_containers() -> None:
        """Empty the containers that were empty; the others are refilled."""
        if [*map(len, containers)] != lengths:
            for container, length in zip(containers, lengths, strict=True):
                if not length:
                    container.clear()

    return [restore_types, restore_flags, restore_attributes, empty_containers, partial(for_each, refill, contents)]


def _list_containers(attributes: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the containers that every module has, of modules with these attributes."""
    with suppress(KeyError):  # of a module that lacks some
        containers = [*chain.from_iterable(map(_read_standard, attributes))]
        if _CONTAINER_TYPES.issuperset(map(type, containers)):  # of nearly all models
            return containers
    values = (names.get(name) for names in attributes for name in STANDARD)
    return [value for value in values if isinstance(value, CONTAINERS)]


def _are_same(current: Sequence[dict[Any, Any]], saved: Sequence[dict[Any, Any]]) -> bool:
    """Return whether mappings have the same objects in the same order: no ``__eq__`` is called."""
    join = chain.from_iterable
    return (
        [*map(len, current)] == [*map(len, saved)]
        and all(map(is_, join(current), join(saved)))
        and all(map(is_, join(map(_VALUES, current)), join(map(_VALUES, saved))))
    )


_VALUES = methodcaller("values")
