"""The memory that a device's allocator reports at the ends of the phases of a training step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..running.devices import memory_reader

__all__ = ["PhaseMemory"]


class PhaseMemory:
    """What was allocated at the end of each phase on the first device that tells; nothing where none does.

    The allocator knows the highest peak so far alone, and to reset it would be a change of the user's process: so a
    phase has a peak where no earlier one was as high.
    """

    def __init__(self, devices: Iterable[torch.device] = ()) -> None:
        #: Bytes, by the name of the phase with ``_end`` or ``_peak`` behind it.
        self.figures: dict[str, int] = {}
        self._device: torch.device | None = None
        self._reader: Any = None
        for device in devices:
            reader = memory_reader(device)
            if reader is not None:
                self._device, self._reader = device, reader
                break
        self._peak = self._read_peak()

    @property
    def is_told(self) -> bool:
        """Whether a device tells its memory."""
        return self._device is not None

    def note(self, phase: str) -> None:
        """Note what is allocated at the end of a phase, and its peak."""
        if self._device is None:
            return
        peak = self._read_peak()
        self.figures[f"{phase}_end"] = self._reader.memory_allocated(self._device)
        if peak > self._peak:
            self.figures[f"{phase}_peak"] = self._peak = peak

    def _read_peak(self) -> int:
        return int(self._reader.max_memory_allocated(self._device)) if self._device is not None else 0
