"""The memory of each phase of a training step, as the devices' allocators report it."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..running.devices import memory_reader

__all__ = ["PhaseMemory"]


class PhaseMemory:
    """The bytes allocated at the end of each phase, on all devices that report them together; nothing if none does.

    An allocator only knows the highest peak so far, and a reset would change the user's process: so a phase has a peak
    only if it is higher than all earlier ones. The peak of several devices is the sum of their own peaks.
    """

    def __init__(self, devices: Iterable[torch.device] = ()) -> None:
        #: Bytes, by the name of the phase with ``_end`` or ``_peak`` behind it.
        self.figures: dict[str, int] = {}
        readers = [(memory_reader(device), device) for device in devices]
        self._readers = [(reader, device) for reader, device in readers if reader is not None]
        self._peak = self._add_up("max_memory_allocated")

    @property
    def is_told(self) -> bool:
        """Whether a device reports its memory."""
        return bool(self._readers)

    def note(self, phase: str) -> None:
        """Note the bytes allocated at the end of a phase, and its peak."""
        if not self._readers:
            return
        self.figures[f"{phase}_end"] = self._add_up("memory_allocated")
        peak = self._add_up("max_memory_allocated")
        if peak > self._peak:
            self.figures[f"{phase}_peak"] = self._peak = peak

    def _add_up(self, figure: str) -> int:
        """Return the bytes of all devices by a function of the allocators."""
        return sum(int(getattr(reader, figure)(device)) for reader, device in self._readers)
