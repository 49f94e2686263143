"""Memory whose content no operator may have written: it has left torch, or was made empty."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from ..compat.modes import disable_dispatch_modes, unseen_by_functions

__all__ = ["ExposedMemory", "Suspicion"]


@dataclass
class Suspicion:
    """Memory whose numbers may be of unknown origin: it has left torch, or was made empty."""

    #: The storage that has left torch, as a weak reference. A tensor without values has its numbers in another's.
    storage: weakref.ref[Any] | None = None
    #: The bytes that the last operator left there; None where none has written to it.
    content: torch.Tensor | None = None

    def find_storage(self) -> Any:
        """Return the storage that has left torch; None if none has, or it is freed."""
        return self.storage and self.storage()

    def is_at(self, address: int) -> bool:
        """Return whether an address is inside the storage."""
        storage = self.find_storage()
        return storage is not None and storage.data_ptr() <= address < storage.data_ptr() + storage.nbytes()

    def is_changed(self) -> bool:
        """Return whether the memory holds values that no operator wrote."""
        if self.content is None:
            return True
        storage = self.find_storage()
        if storage is None:
            return False
        with disable_dispatch_modes(), unseen_by_functions():
            return not torch.equal(_read_memory(storage), self.content)

    def renew(self) -> None:
        """Note the values that an operator has written there."""
        storage = self.find_storage()
        if storage is not None:
            with disable_dispatch_modes(), unseen_by_functions():
                self.content = _read_memory(storage).clone()


class ExposedMemory:
    """The memory of tensors that has left torch: numpy, or code that has its address, may read and write it.

    Attributes:
        has_numbers: Whether numbers have left torch, with the memory that they are in, or copied to a list.
    """

    def __init__(self) -> None:
        self.has_numbers = False
        self._suspicions: list[Suspicion] = []

    def add(self, suspicion: Suspicion) -> None:
        """Note another piece of memory, and forget the freed ones."""
        self._suspicions = [kept for kept in self._suspicions if kept.find_storage()]
        self._suspicions.append(suspicion)

    def list_storages(self) -> list[Any]:
        """Return the storages that have left torch and are not freed."""
        storages = [suspicion.find_storage() for suspicion in self._suspicions]
        return [storage for storage in storages if storage is not None]

    def is_foreign(self, address: int) -> bool:
        """Return whether numbers at an address belong to no tensor: outside this memory, or not written by an operator.

        Storages may overlap, such as the storages of two views of one array: the content of one of them must be known.
        """
        return all(suspicion.is_changed() for suspicion in self._suspicions if suspicion.is_at(address))


def _read_memory(storage: Any) -> torch.Tensor:
    """Return the bytes of a storage, as they are now."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
