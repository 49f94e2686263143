"""Holders: places outside of a model where tensors may be left; each notes its contents and can restore them."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import CellType
from typing import Any, NamedTuple

import torch

from profilerkit.process.containers import refill
from profilerkit.process.object_facts import copy_content

from ..model.attributes import EMPTY, list_tensors, read_slot
from .snapshots import SlotsSnapshot

__all__ = [
    "FUNCTION_CACHE",
    "Holder",
    "Namespace",
    "note_cache",
    "note_cell",
    "note_container",
    "note_filled_slots",
    "read_cell",
]

#: The class of functions that remember their results.
FUNCTION_CACHE: Any = functools._lru_cache_wrapper


class Holder(NamedTuple):
    """A place with its contents when it was noted.

    Attributes:
        list_changes: Returns its new contents, each with its name in messages; empty where no message names it.
        restore: Restores its contents.
    """

    list_changes: Callable[[], Iterable[tuple[str, Any]]]
    restore: Callable[[], None]

    def restore_if_new(self, is_unwanted: Callable[[torch.Tensor], bool]) -> list[str]:
        """Restore its contents if the new ones lead to an unwanted tensor; return the names of those that do."""
        names = [name for name, value in self.list_changes() if any(map(is_unwanted, list_tensors((value,))))]
        if names:
            self.restore()
        return [name for name in names if name]


def note_cache(function: Any) -> Holder:
    """Note a function that remembers its results; no message names it, because lost results are computed again.

    It forgets those that are new. From a cache of limited length Python takes no single result away: it is emptied, and
    computes again what it had.
    """
    before = function.cache_info()

    def list_changes() -> Iterator[tuple[str, Any]]:
        if function.cache_info().misses != before.misses:
            yield "", gc.get_referents(function)

    def restore() -> None:
        # Python's own dict of the results, where the cache has no limit.
        dicts = [value for value in gc.get_referents(function) if type(value) is dict and value is not vars(function)]
        if before.maxsize is not None or not dicts or function.cache_info().misses < before.misses:
            function.cache_clear()
            return
        for key in [*islice(dicts[0], before.currsize, None)]:  # a dict has them in the order of their making
            dicts[0].pop(key, None)

    return Holder(list_changes, restore)


def note_cell(cell: CellType, name: str) -> Holder:
    """Note a variable of a closure."""
    before = read_cell(cell)

    def list_changes() -> Iterator[tuple[str, Any]]:
        content = read_cell(cell)
        if content is not before:
            yield name, content

    def restore() -> None:
        if before is EMPTY:
            del cell.cell_contents
        else:
            cell.cell_contents = before

    return Holder(list_changes, restore)


def read_cell(cell: CellType) -> Any:
    """Return the content of a variable of a closure; `EMPTY` for nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def note_container(container: Any, name: str) -> Holder:
    """Note a dict, list, set or deque; a value of a dict under another key is a change of it."""
    before = copy_content(container)

    def list_changes() -> Iterator[tuple[str, Any]]:
        current = copy_content(container)
        if isinstance(current, dict):
            yield from ((name, value) for key, value in current.items() if before.get(key, EMPTY) is not value)
        else:
            previous = set(map(id, before))
            yield from ((name, value) for value in current if id(value) not in previous)

    return Holder(list_changes, lambda: refill(container, before))


def note_filled_slots(owner: Any, name: str) -> Holder:
    """Note an object whose class has ``__slots__``."""
    before = SlotsSnapshot(owner)

    def list_changes() -> Iterator[tuple[str, Any]]:
        for slot, value in before.values:
            current = read_slot(slot, owner)
            if current is not value:
                yield name, current

    return Holder(list_changes, before.restore)


class Namespace:
    """The globals of a module; only globals that the model's code uses are noted."""

    def __init__(self, variables: dict[str, Any], module: str) -> None:
        self.module = module
        self.before: dict[str, Any] = {}  #: the earlier value of each name; `EMPTY` for none
        self._variables = variables

    def note(self, name: str) -> Any:
        """Note the value of a name, and return it."""
        value = self.before[name] = self._variables.get(name, EMPTY)
        return value

    @property
    def holder(self) -> Holder:
        """The globals as one place."""
        return Holder(self._list_changes, self._restore)

    def _list_changes(self) -> Iterator[tuple[str, Any]]:
        for name, value in list(self.before.items()):
            current = self._variables.get(name, EMPTY)
            if current is not value:
                yield f"{self.module}.{name}", current

    def _restore(self) -> None:
        for name, value in self.before.items():
            if value is EMPTY:
                self._variables.pop(name, None)
            elif self._variables.get(name, EMPTY) is not value:
                self._variables[name] = value
