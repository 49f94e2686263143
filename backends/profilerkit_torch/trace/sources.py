"""Tensors without values that stand in for real ones: the real tensor, from which values are read when asked for."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import torch

from ..model.tensors import storage_key

__all__ = ["Sources"]


class _Source(NamedTuple):
    """A tensor without values, and the real tensor that it stands in for, its *source*."""

    stand_in: torch.Tensor
    real: torch.Tensor


class Sources:
    """The real tensors that stand-ins have their values from: the integer buffers and inputs of one pass.

    Most models never ask for these values, so nothing is copied before they do. Both tensors are kept alive until
    `clear`, and the ``id`` of a stand-in names no other tensor before then.
    """

    def __init__(self) -> None:
        #: By the ``id`` of a stand-in: itself and its source, for those whose values are still those of the source.
        self.by_id: dict[int, _Source] = {}
        #: The same for all stand-ins that were added.
        self._all: dict[int, _Source] = {}
        #: By the storage of a stand-in: the stand-ins that a write to this storage changes; None until it is needed.
        self._changed_together: dict[int, list[torch.Tensor]] | None = None

    def add(self, stand_in: torch.Tensor, real: torch.Tensor) -> None:
        """Let a stand-in have the values of a real tensor."""
        self.by_id[id(stand_in)] = self._all[id(stand_in)] = _Source(stand_in, real)
        self._changed_together = None

    def find(self, stand_in: torch.Tensor) -> torch.Tensor | None:
        """Return the real tensor whose values a stand-in has; None where it has others, or none that are known."""
        source = self.by_id.get(id(stand_in))
        return None if source is None else source.real

    def remove(self, stand_in: torch.Tensor) -> None:
        """Let a stand-in no longer have the values of its source, if it has one."""
        self.by_id.pop(id(stand_in), None)

    def list_changed(self, storage: int) -> list[torch.Tensor]:
        """Return the stand-ins that a write to a storage of stand-ins changes; none where the storage is of no such.

        More than one if their sources share memory, such as a buffer that is a view of another buffer: each has a
        stand-in of its own, and a real run would write to all of them at once.
        """
        if not self._all:
            return []
        if self._changed_together is None:
            self._changed_together = self._group_by_memory()
        return self._changed_together.get(storage, [])

    def _group_by_memory(self) -> dict[int, list[torch.Tensor]]:
        """Return the stand-ins whose sources share memory, by the storage of each of these stand-ins."""
        groups: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
        for source in self._all.values():
            groups[storage_key(source.real)].append(source.stand_in)
        return {storage_key(stand_in): group for group in groups.values() for stand_in in group}

    def clear(self) -> None:
        """Let go of all tensors."""
        self.by_id.clear()
        self._all.clear()
        self._changed_together = None
