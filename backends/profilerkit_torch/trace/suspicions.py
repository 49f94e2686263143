"""Why the numbers in memory may be of unknown origin."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from ..compat.modes import disable_dispatch_modes, unseen_by_functions

__all__ = ["Suspicion"]


@dataclass
class Suspicion:
    """Why the numbers in memory may be of unknown origin: it has left torch, or was made empty."""

    #: The storage that has left torch, as a weak reference. A tensor without values has its numbers in another's.
    storage: weakref.ref[Any] | None = None
    #: The bytes that the last operator left there; None where none has written to it.
    content: torch.Tensor | None = None

    def find_storage(self) -> Any:
        """Return the storage that has left torch; None if none has, or it is freed."""
        return self.storage and self.storage()

    def is_changed(self) -> bool:
        """Return whether the memory holds what no operator wrote."""
        storage = self.find_storage()
        if self.content is None or storage is None:
            return self.content is None
        with disable_dispatch_modes(), unseen_by_functions():
            return not torch.equal(_read_memory(storage), self.content)

    def renew(self) -> None:
        """Know what an operator has written there."""
        storage = self.find_storage()
        if storage is not None:
            with disable_dispatch_modes(), unseen_by_functions():
                self.content = _read_memory(storage).clone()


def _read_memory(storage: Any) -> torch.Tensor:
    """Return the bytes of a storage, as they are now."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
