"""The tensors with the known values of stand-ins (`KnownValues`): small tensors, or the user's own tensors."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import NamedTuple

import torch

from ..model.storages import storage_key

__all__ = ["ConcreteTensors", "Originals"]


class _Original(NamedTuple):
    """A tensor without values, and the real tensor that it stands in for, its *original*."""

    stand_in: torch.Tensor
    real: torch.Tensor


class Originals:
    """The real tensors that stand-ins have their values from: the integer buffers and inputs of one pass.

    Most models never ask for these values, so nothing is copied before they do. Both tensors are kept alive until
    `clear`, and the ``id`` of a stand-in names no other tensor before then.

    Tensors that share memory have none: each would get a copy of the values, and a write would change one copy alone.
    """

    def __init__(self) -> None:
        #: Stand-ins that still have the values of their originals, each with its original, by the stand-in's ``id``.
        self.by_id: dict[int, _Original] = {}
        #: The stand-ins by their own storages, and by the storages of their originals.
        self._by_storage: dict[int, torch.Tensor] = {}
        self._by_real_storage: dict[int, torch.Tensor] = {}

    def add(self, stand_in: torch.Tensor, real: torch.Tensor) -> None:
        """Let a stand-in have the values of a real tensor, unless another one has values in that memory."""
        first = self._by_real_storage.setdefault(storage_key(real), stand_in)
        if first is not stand_in:
            self.remove(first)
            return
        self.by_id[id(stand_in)] = _Original(stand_in, real)
        self._by_storage[storage_key(stand_in)] = stand_in

    def find(self, stand_in: torch.Tensor) -> torch.Tensor | None:
        """Return the real tensor whose values a stand-in has; None where it has others, or none that are known."""
        original = self.by_id.get(id(stand_in))
        return None if original is None else original.real

    def find_by_storage(self, storage: int) -> torch.Tensor | None:
        """Return the stand-in whose storage has this address; None if there is no such."""
        return self._by_storage.get(storage)

    def remove(self, stand_in: torch.Tensor) -> None:
        """Let a stand-in no longer have the values of its original, if it has one."""
        self.by_id.pop(id(stand_in), None)

    def clear(self) -> None:
        """Let go of all tensors."""
        self.by_id.clear()
        self._by_storage.clear()
        self._by_real_storage.clear()


class _Concrete(weakref.ref[torch.Tensor]):
    """A weak reference to a tensor without values, with the values beside it.

    Attributes:
        identity: The ``id`` of the tensor without values.
        storage: The address of its storage, which its views have too.
        values: The concrete tensor, on the CPU.
    """

    __slots__ = ("identity", "storage", "values")

    identity: int
    storage: int
    values: torch.Tensor


class ConcreteTensors:
    """The concrete tensors of the stand-ins that are alive; one that is freed takes its concrete tensor along.

    The recorder reads `by_id` and `storages` at every operator, which is why they are plain attributes; only the
    methods change them.
    """

    def __init__(self) -> None:
        #: The concrete tensor of a stand-in, by the stand-in's ``id``.
        self.by_id: dict[int, _Concrete] = {}
        #: How many stand-ins with one share a storage, by its address; a storage without any is left out.
        self.storages: Counter[int] = Counter()

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the concrete tensor of a stand-in; None where it has none."""
        concrete = self.by_id.get(id(tensor))
        return concrete.values if concrete is not None and concrete() is tensor else None

    def add(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Give a stand-in a concrete tensor, in place of the one that it may have."""
        self.remove(tensor)
        concrete = _Concrete(tensor, self._free)
        concrete.identity = id(tensor)
        concrete.storage = storage_key(tensor)
        concrete.values = values
        self.by_id[concrete.identity] = concrete
        self.storages[concrete.storage] += 1

    def remove(self, tensor: torch.Tensor) -> None:
        """Take the concrete tensor of a stand-in away, if it has one."""
        concrete = self.by_id.get(id(tensor))
        if concrete is not None:
            self._remove(concrete)

    def remove_storage(self, storage: int) -> None:
        """Take away the concrete tensors of all stand-ins that share a storage."""
        if storage in self.storages:
            for concrete in [concrete for concrete in self.by_id.values() if concrete.storage == storage]:
                self._remove(concrete)

    def clear(self) -> None:
        """Let go of all tensors."""
        self.by_id.clear()
        self.storages.clear()

    def _free(self, concrete: _Concrete) -> None:
        """Take away the concrete tensor of a stand-in that was freed, unless another tensor has its ``id`` by now."""
        if self.by_id.get(concrete.identity) is concrete:
            self._remove(concrete)

    def _remove(self, concrete: _Concrete) -> None:
        del self.by_id[concrete.identity]
        self.storages[concrete.storage] -= 1
        if not self.storages[concrete.storage]:
            del self.storages[concrete.storage]
