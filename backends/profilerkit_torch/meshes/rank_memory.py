"""The memory of one rank: its shares of tensors that are spread over several, and the bytes alive in its step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from profilerkit_predict.meshes.records import Purpose

from ..trace.live_bytes import LiveBytes
from ..trace.operator_facts import tensors_in

__all__ = ["RankMemory", "count_bytes", "find_share"]

#: The parts of memory that every training step has.
_PARTS = ("inputs", "activations", "gradients", "other")


class RankMemory:
    """The bytes alive in a step by purpose, without the weights, and their peak."""

    def __init__(self, live: LiveBytes) -> None:
        self.peak: Counter[Purpose] = Counter()  #: the bytes alive at the peak
        self.input_bytes = 0
        self._live = live
        self._peak_bytes = 0

    def start_with(self, inputs: Iterable[torch.Tensor]) -> None:
        """Count the tensors that are alive before the step."""
        for tensor in inputs:
            self.hold(tensor, Purpose("inputs", ""))
        self.input_bytes = self.note_peak(Purpose("inputs", ""))

    def hold(self, result: Any, purpose: Purpose) -> None:
        """Count tensors, alone or in structures, as alive for a purpose."""
        self._live.part = purpose
        for tensor in tensors_in(result):
            self._live.add(tensor)

    def keep_gradients(self, gradients: Iterable[torch.Tensor], path: str) -> None:
        """Note that this rank's share of these gradients of a layer stays."""
        for gradient in gradients:
            self._live.move(gradient, Purpose("gradients", path))

    def note_peak(self, purpose: Purpose, bytes_inside: int = 0) -> int:
        """Note the bytes alive now, beside bytes for a purpose inside of an operator; return all of them."""
        alive = self._live.total + bytes_inside
        if alive > self._peak_bytes:
            self._peak_bytes = alive
            self.peak = self.list_alive() + Counter({purpose: bytes_inside})
        return alive

    def list_alive(self) -> Counter[Purpose]:
        """Return the bytes alive now, by purpose."""
        self._live.take_off()
        return +self._live.parts

    def divide_peak(self) -> dict[str, int]:
        """Return the bytes at the peak by the parts that every training step has; further ones count as "other"."""
        parts = dict.fromkeys(_PARTS, 0)
        for purpose, size in self.peak.items():
            parts[purpose.part if purpose.part in parts else "other"] += size
        return parts


def find_share(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a tensor that this rank has, without its graph: all of a tensor that is not spread."""
    with torch.no_grad():
        return tensor.to_local() if hasattr(tensor, "to_local") else tensor.detach()


def count_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the elements of tensors."""
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors)
