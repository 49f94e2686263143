"""Memory whose content no operator may have written: it was made empty, or has left torch."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..compat.modes import disable_dispatch_modes, unseen_by_functions
from ..compat.tensors import find_storage, storage_address
from .live_bytes import LiveBytes

__all__ = ["ExposedMemory", "Suspicion", "find_key"]


class Suspicion:
    """Memory whose content may be of unknown origin."""

    def __init__(self) -> None:
        #: The storage, where it has left torch. A tensor without values has its numbers in the storage of another one.
        self.storage: weakref.ref[Any] | None = None
        #: The bytes that the last operator left there; None where none has written to it.
        self.content: torch.Tensor | None = None

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
        """Note the values that are there, as those of an operator."""
        storage = self.find_storage()
        if storage is not None:
            with disable_dispatch_modes(), unseen_by_functions():
                self.content = _read_memory(storage).clone()


class ExposedMemory:
    """The memory of a pass that was made empty or has left torch: numpy, or code that has its address, may write there.

    Each such storage has its `Suspicion` in ``live``. Reading it reports values that no operator wrote.

    Args:
        live: The storages that are alive.
        report: Called once for each tensor of unknown origin.
    """

    def __init__(self, live: LiveBytes, report: Callable[[], None]) -> None:
        self._live = live
        self._report = report
        #: The memory that has left torch.
        self._outside: list[Suspicion] = []
        #: The part of it to which the operator that runs has written.
        self._rewritten: list[Suspicion] = []

    def note_empty(self, tensor: torch.Tensor) -> None:
        """Note memory that nothing has written to."""
        self._suspect(tensor, Suspicion())

    def accept(self, tensor: torch.Tensor) -> None:
        """Know the content of a tensor's memory."""
        self._suspect(tensor, None)

    def _suspect(self, tensor: torch.Tensor, suspicion: Suspicion | None) -> None:
        entry = self._live.by_storage.get(find_key(tensor))
        if entry is not None:
            entry.suspicion = suspicion

    def add(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Note that the memory of a tensor leaves torch: that of ``values``, which has the numbers of the tensor.

        Its content is known, unless it was made empty.
        """
        entry = self._live.by_storage.get(find_key(tensor))
        if entry is None:
            return
        is_known = entry.suspicion is None
        suspicion = entry.suspicion = entry.suspicion or Suspicion()
        with unseen_by_functions():
            suspicion.storage = weakref.ref(values.untyped_storage())
        if is_known:
            suspicion.renew()
        others = [kept for kept in self._outside if kept is not suspicion and kept.find_storage() is not None]
        self._outside = [*others, suspicion]

    def note_freed(self) -> None:
        """Count memory that the model has given back itself, by ``storage.resize_(0)``, as large as it is now."""
        for suspicion in self._outside:
            storage = suspicion.find_storage()
            entry = None if storage is None else self._live.by_storage.get(storage_address(storage))
            if entry is not None and storage.nbytes() < entry.seen:
                self._live.resize(storage)

    def examine(self, tensor: torch.Tensor, *, is_written: bool) -> None:
        """Report a tensor whose memory holds values that no operator wrote; values written now are known afterwards."""
        entry = self._live.by_storage[find_key(tensor)]
        suspicion: Suspicion = entry.suspicion
        is_first_write = is_written and suspicion.content is None  # over memory whose content nobody has read
        if tensor.numel() and not is_first_write and suspicion.is_changed():
            self._report()
        elif not is_written:
            return
        if suspicion.storage is None:  # made empty, and filled now
            entry.suspicion = None
        else:
            self._rewritten.append(suspicion)

    def renew(self) -> None:
        """Note the values that the operator has written to memory that has left torch."""
        while self._rewritten:
            self._rewritten.pop().renew()

    def is_foreign(self, address: int) -> bool:
        """Return whether numbers at an address belong to no tensor: outside this memory, or not written by an operator.

        Storages may overlap, such as the storages of two views of one array: the content of one of them must be known.
        """
        return all(suspicion.is_changed() for suspicion in self._outside if suspicion.is_at(address))


def _read_memory(storage: Any) -> torch.Tensor:
    """Return the bytes of a storage, as they are now."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def find_key(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage; 0 where it has no single one."""
    try:
        with unseen_by_functions():
            return int(storage_address(find_storage(tensor)))
    except (NotImplementedError, RuntimeError):
        return 0
