"""Holders: places outside of a model where tensors may be left; each notes its contents and can restore them."""

from __future__ import annotations

import functools
import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import CellType
from typing import Any

import torch

from profilerkit.process.containers import refill
from profilerkit.process.object_facts import copy_content

from ..model.attributes import EMPTY, list_tensors, read_slot
from .snapshots import SlotsSnapshot

__all__ = ["FUNCTION_CACHE", "Cell", "Container", "FunctionCache", "Holder", "Namespace", "Slots", "read_cell"]

#: The class of functions that remember their results.
FUNCTION_CACHE: Any = functools._lru_cache_wrapper


class Holder(ABC):
    """A holder, with its contents when it was noted."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name  #: its name in messages

    @abstractmethod
    def list_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield its new contents, by name or index."""

    @abstractmethod
    def restore(self) -> None:
        """Restore its contents."""

    def list_names(self, keys: Iterable[Any]) -> Iterator[str]:
        """Yield the names in messages of changes with these names or indices; none for a holder without a name."""
        if self.name:
            yield self.name

    def restore_if_new(self, is_unwanted: Callable[[torch.Tensor], bool]) -> list[str]:
        """Restore its contents if the new ones lead to an unwanted tensor; return the names of the changes that do."""
        keys = [key for key, value in self.list_changes() if any(map(is_unwanted, list_tensors((value,))))]
        if keys:
            self.restore()
        return [*self.list_names(keys)] if keys else []


class FunctionCache(Holder):
    """A function that remembers its results.

    It forgets those that are new. From a cache of limited length Python takes no single result away: it is emptied, and
    computes again what it had.
    """

    __slots__ = ("_before", "_function")

    def __init__(self, function: Any) -> None:
        super().__init__("")  # no message names it: lost results are computed again
        self._function = function
        self._before = function.cache_info()

    def list_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield all results, if some were computed."""
        if self._function.cache_info().misses != self._before.misses:
            yield "", gc.get_referents(self._function)

    def restore(self) -> None:
        """Forget the new results, or all."""
        results = self._find_results()
        if results is None or self._function.cache_info().misses < self._before.misses:  # it was emptied meanwhile
            self._function.cache_clear()
            return
        for key in [*islice(results, self._before.currsize, None)]:  # a dict has them in the order of their making
            results.pop(key, None)

    def _find_results(self) -> dict[Any, Any] | None:
        """Return Python's own dict of the results, of a cache without a limit; None of any other, and if not found."""
        if self._before.maxsize is not None:
            return None
        dicts = [value for value in gc.get_referents(self._function) if type(value) is dict]
        return next((results for results in dicts if results is not vars(self._function)), None)


class Cell(Holder):
    """A variable of a closure."""

    __slots__ = ("_before", "_cell")

    def __init__(self, cell: CellType, name: str, content: Any) -> None:
        super().__init__(name)
        self._cell, self._before = cell, content

    def list_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield the content, if it is another one."""
        content = read_cell(self._cell)
        if content is not self._before:
            yield "", content

    def restore(self) -> None:
        """Put the content back."""
        if self._before is EMPTY:
            del self._cell.cell_contents
        else:
            self._cell.cell_contents = self._before


def read_cell(cell: CellType) -> Any:
    """Return the content of a variable of a closure; `EMPTY` for nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


class Namespace(Holder):
    """The globals of a module; only globals that the model's code uses are noted."""

    __slots__ = ("_namespace", "before")

    def __init__(self, namespace: dict[str, Any], module: str) -> None:
        super().__init__(module)
        self._namespace = namespace
        self.before: dict[str, Any] = {}  #: the earlier value of each name; `EMPTY` for none

    def note(self, name: str) -> Any:
        """Note the value of a name, and return it."""
        value = self.before[name] = self._namespace.get(name, EMPTY)
        return value

    def list_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield the noted names that stand for something else."""
        for name, value in list(self.before.items()):
            current = self._namespace.get(name, EMPTY)
            if current is not value:
                yield name, current

    def restore(self) -> None:
        """Give the noted names their earlier values."""
        for name, value in self.before.items():
            if value is EMPTY:
                self._namespace.pop(name, None)
            elif self._namespace.get(name, EMPTY) is not value:
                self._namespace[name] = value

    def list_names(self, keys: Iterable[Any]) -> Iterator[str]:
        """Yield the names, each with the module's name in front."""
        return (f"{self.name}.{key}" for key in keys)


class Container(Holder):
    """A dict, list, set or deque."""

    __slots__ = ("_before", "_container")

    def __init__(self, container: Any, name: str) -> None:
        super().__init__(name)
        self._container, self._before = container, copy_content(container)

    def list_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield the new values; in a dict, also values under another key than before."""
        current = copy_content(self._container)
        if isinstance(current, dict):
            yield from ((key, value) for key, value in current.items() if self._before.get(key, EMPTY) is not value)
        else:
            previous = set(map(id, self._before))
            yield from ((index, value) for index, value in enumerate(current) if id(value) not in previous)

    def restore(self) -> None:
        """Put the content back."""
        refill(self._container, self._before)


class Slots(Holder):
    """An object whose class has ``__slots__``."""

    __slots__ = ("_before",)

    def __init__(self, owner: Any, name: str) -> None:
        super().__init__(name)
        self._before = SlotsSnapshot(owner)

    def list_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield the slots that have something else in them."""
        for slot, value in self._before.values:
            current = read_slot(slot, self._before.owner)
            if current is not value:
                yield slot, current

    def restore(self) -> None:
        """Restore the contents of the slots."""
        self._before.restore()
