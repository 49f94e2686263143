"""Tensors without values, each with its *twin*: a small tensor on the CPU that has the values."""

from __future__ import annotations

import weakref
from collections import Counter

import torch

from ..model.tensors import storage_key

__all__ = ["Twins"]


class _Twin(weakref.ref[torch.Tensor]):
    """A weak reference to a tensor without values, with the values beside it.

    Attributes:
        identity: The ``id`` of the tensor without values.
        storage: The address of its storage, which its views have too.
        values: The twin, on the CPU.
    """

    __slots__ = ("identity", "storage", "values")

    identity: int
    storage: int
    values: torch.Tensor


class Twins:
    """The twins of the tensors that are alive; a tensor that is freed takes its twin along.

    The recorder reads `by_id` and `storages` at every operator, which is why they are plain attributes; only the
    methods change them.
    """

    def __init__(self) -> None:
        #: The twin of a tensor, by the tensor's ``id``.
        self.by_id: dict[int, _Twin] = {}
        #: How many tensors with a twin share a storage, by its address; a storage without any is left out.
        self.storages: Counter[int] = Counter()

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the values in a tensor's twin; None where it has none."""
        twin = self.by_id.get(id(tensor))
        return twin.values if twin is not None and twin() is tensor else None

    def add(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Give a tensor a twin with these values, in place of the one that it may have."""
        self.remove(tensor)
        twin = _Twin(tensor, self._free)
        twin.identity = id(tensor)
        twin.storage = storage_key(tensor)
        twin.values = values
        self.by_id[twin.identity] = twin
        self.storages[twin.storage] += 1

    def remove(self, tensor: torch.Tensor) -> None:
        """Take a tensor's twin away, if it has one."""
        twin = self.by_id.get(id(tensor))
        if twin is not None:
            self._remove(twin)

    def remove_storage(self, storage: int) -> None:
        """Take away the twins of all tensors that share a storage."""
        if storage in self.storages:
            for twin in [twin for twin in self.by_id.values() if twin.storage == storage]:
                self._remove(twin)

    def clear(self) -> None:
        """Let go of all tensors."""
        self.by_id.clear()
        self.storages.clear()

    def _free(self, twin: _Twin) -> None:
        """Take away the twin of a tensor that was freed, unless another tensor has its ``id`` by now."""
        if self.by_id.get(twin.identity) is twin:
            self._remove(twin)

    def _remove(self, twin: _Twin) -> None:
        del self.by_id[twin.identity]
        self.storages[twin.storage] -= 1
        if not self.storages[twin.storage]:
            del self.storages[twin.storage]
