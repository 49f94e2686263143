"""Tensors without values, each with its *twin*: a small tensor on the CPU that has the values."""

from __future__ import annotations

import weakref
from collections import Counter

import torch

from ..model.tensors import storage_key

__all__ = ["Twins"]


class _Twin(weakref.ref[torch.Tensor]):
    """A tensor without values, its values, and by what numbers `Twins` has them."""

    __slots__ = ("key", "storage", "values")

    key: int
    storage: int
    values: torch.Tensor


class Twins:
    """The twins of the tensors that are alive; a tensor that is freed takes its twin along.

    A tensor may stand in for a real one throughout. Then it has that as its *source*, and no twin before one is needed:
    most models never ask for these values.
    """

    def __init__(self) -> None:
        #: By the ``id`` of a tensor without values: its twin, or its source.
        self.by_id: dict[int, _Twin | torch.Tensor] = {}
        #: How many tensors with a twin share a storage.
        self.storages: Counter[int] = Counter()
        #: The tensors that have a source; made when the first is asked for, by their storages too.
        self._sourced: list[torch.Tensor] = []
        self._sourced_by_storage: dict[int, torch.Tensor] | None = None

    def add_source(self, tensor: torch.Tensor, source: torch.Tensor) -> None:
        """Let a tensor have the values of a real one."""
        self.by_id[id(tensor)] = source
        self._sourced.append(tensor)

    def take_sourced(self, storage: int) -> torch.Tensor | None:
        """Return the tensor of a storage that has a source, which is about to be written to; each but once."""
        if not self._sourced:
            return None
        if self._sourced_by_storage is None:
            self._sourced_by_storage = {storage_key(tensor): tensor for tensor in self._sourced}
        return self._sourced_by_storage.pop(storage, None)

    def find_source(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the real tensor whose values a tensor has; None where it has a twin, or no values that are known."""
        entry = self.by_id.get(id(tensor))
        return None if isinstance(entry, _Twin) else entry

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the values in a tensor's twin; None where it has none."""
        twin = self.by_id.get(id(tensor))
        return twin.values if isinstance(twin, _Twin) and twin() is tensor else None

    def add(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Give a tensor a twin with these values, in place of what it has."""
        self.remove(tensor)
        twin = _Twin(tensor, self._free)
        twin.key, twin.values, twin.storage = id(tensor), values, storage_key(tensor)
        self.by_id[twin.key] = twin
        self.storages[twin.storage] += 1

    def remove(self, tensor: torch.Tensor) -> None:
        """Take a tensor's twin away, if it has one."""
        twin = self.by_id.get(id(tensor))
        if isinstance(twin, _Twin):
            self._remove(twin)

    def remove_storage(self, storage: int) -> None:
        """Take away the twins of all tensors that share a storage."""
        if storage in self.storages:
            twins = [twin for twin in self.by_id.values() if isinstance(twin, _Twin) and twin.storage == storage]
            for twin in twins:
                self._remove(twin)

    def clear(self) -> None:
        """Let go of all tensors."""
        for kept in (self.by_id, self.storages, self._sourced):
            kept.clear()
        self._sourced_by_storage = None

    def _free(self, twin: _Twin) -> None:
        if self.by_id.get(twin.key) is twin:
            self._remove(twin)

    def _remove(self, twin: _Twin) -> None:
        del self.by_id[twin.key]
        self.storages[twin.storage] -= 1
        if not self.storages[twin.storage]:
            del self.storages[twin.storage]
