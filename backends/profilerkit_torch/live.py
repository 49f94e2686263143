"""The bytes alive at once, by the lifetimes of storages."""

from __future__ import annotations

import weakref
from typing import Any

import torch

__all__ = ["LiveBytes"]


class LiveBytes:
    """Counts the bytes of all storages alive: each one once, from its first tensor until it is freed."""

    def __init__(self) -> None:
        self.total = 0
        self._watched: dict[int, weakref.ref[Any]] = {}

    def add(self, tensor: torch.Tensor, size: int | None = None) -> None:
        """Count the tensor's storage, if it is not counted already; ``size=0`` for a weight, counted elsewhere."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
            return
        key = storage._cdata
        if key in self._watched:
            return
        counted = storage.nbytes() if size is None else min(size, storage.nbytes())
        self.total += counted

        def freed(_: Any) -> None:
            self.total -= counted
            del self._watched[key]

        self._watched[key] = weakref.ref(storage, freed)
