"""The collectives of one rank's training step, and their purposes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from profilerkit_predict.meshes.records import Message, PlacedCollective, make_collective

from ..compat.tensors import storage_address
from ..trace.operator_facts import tensors_in

__all__ = ["Exchange", "Exchanges"]


class Exchange(NamedTuple):
    """A collective of a step, and its purpose.

    Attributes:
        message: The message that it exchanges.
        layer: The path of the layer.
        phase: The phase of the step.
        overlaps: Whether it runs beside the rank's own work.
        source: The tensor whose gradient is reduced, by the node that made the tensor; None for other collectives.
    """

    message: Message
    layer: str
    phase: str
    overlaps: bool
    source: tuple[int, int] | None = None


class Exchanges:
    """The collectives of a step, and what is known of later ones."""

    def __init__(self) -> None:
        #: How often each collective that is not known was called, by its name.
        self.unknown: Counter[str] = Counter()
        #: The collectives, by the places of their operators.
        self.by_operator: dict[int, Exchange] = {}
        #: The collectives after the update of the weights.
        self._updates: list[Exchange] = []
        #: The phase that a tensor is exchanged for, by the address of its storage.
        self._phases: dict[int, str] = {}

    def note_phase(self, tensor: torch.Tensor, phase: str) -> None:
        """Note the phase for which a tensor will be sent or received, at any time."""
        self._phases[storage_address(tensor.untyped_storage())] = phase

    def find_phase(self, args: Any) -> str | None:
        """Return the phase that the arguments of a collective are exchanged for; None if none is noted."""
        addresses = (storage_address(tensor.untyped_storage()) for tensor in tensors_in(args))
        return next((self._phases[address] for address in addresses if address in self._phases), None)

    def note_update(self, message: Message, path: str) -> None:
        """Note a message that is exchanged for a layer after the update of the weights."""
        self._updates.append(Exchange(message, path, "update", overlaps=False))

    def list_placed(self, mesh: Mapping[str, int], operators: int) -> Iterator[PlacedCollective]:
        """Yield the collectives of a step of so many operators over a mesh, in their order."""
        updates = ((operators, exchange) for exchange in self._updates)
        for position, exchange in (*self.by_operator.items(), *updates):
            collective = make_collective(exchange.message, exchange.layer, exchange.phase, exchange.overlaps, mesh)
            yield PlacedCollective(position, collective)
