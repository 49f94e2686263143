"""The bytes alive at once, by the lifetimes of storages."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["LiveBytes"]


class LiveBytes:
    """Counts the bytes of all storages alive: each one once, from its first tensor until it is freed."""

    def __init__(self) -> None:
        self.total = 0
        self._watched: dict[int, _Watched] = {}

    def add(self, tensor: torch.Tensor, size: int | None = None) -> int:
        """Count the tensor's storage, or what it has grown by; return its bytes where it was not known before.

        ``size`` is what it counts for: 0 for a weight, which is counted elsewhere.
        """
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
            return 0
        key, seen = storage._cdata, storage.nbytes()
        known = self._watched.get(key)
        if known is not None:
            grown = max(0, seen - known.seen)
            known.seen, known.counted = known.seen + grown, known.counted + grown
            self.total += grown
            return 0
        counted = seen if size is None else min(size, seen)
        self.total += counted

        def freed(_: Any) -> None:
            self.total -= self._watched.pop(key).counted

        self._watched[key] = _Watched(weakref.ref(storage, freed), seen, counted)
        return seen


@dataclass(slots=True)
class _Watched:
    """A storage that is alive: its bytes when last seen, and those of them that count."""

    reference: weakref.ref[Any]
    seen: int
    counted: int
