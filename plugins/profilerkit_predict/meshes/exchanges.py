"""What one rank exchanges in a step, added up: equal collectives of a layer are one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from .records import Collective, PlacedCollective

__all__ = ["Exchanges", "Message", "note_idle"]


@dataclass(frozen=True, slots=True)
class Message:
    """One collective: between which ranks, and the bytes of the whole tensor."""

    kind: str
    ranks: tuple[int, ...]
    bytes: int

    @property
    def sent_bytes(self) -> int:
        """The bytes that one rank sends around a ring of n: (n - 1) / n of the whole, and twice that to reduce all."""
        others = len(self.ranks) - 1
        if self.kind == "receive" or not others:
            return 0
        if self.kind in ("send", "broadcast", "permute"):
            return self.bytes
        rounds = 2 if self.kind == "all-reduce" else 1
        return self.bytes * others * rounds // len(self.ranks)


class _Kind(NamedTuple):
    """What equal collectives have in common; the dimensions of the mesh are joined by commas."""

    layer: str
    kind: str
    dimensions: str
    phase: str
    overlaps: bool


@dataclass
class _Sum:
    """Calls and bytes of equal collectives."""

    ranks: int
    calls: int = 0
    bytes: int = 0
    sent_bytes: int = 0


def _make_row(kind: _Kind, total: _Sum) -> Collective:
    return Collective(
        kind.layer,
        kind.kind,
        kind.dimensions,
        total.ranks,
        kind.phase,
        total.calls,
        total.bytes,
        total.sent_bytes,
        kind.overlaps,
    )


class Exchanges:
    """Adds up the collectives of a step over a mesh."""

    def __init__(self, mesh: Mapping[str, int]) -> None:
        self.mesh = mesh
        self._sums: dict[_Kind, _Sum] = {}
        self._in_order: list[tuple[int | None, Collective]] = []

    def add(
        self, message: Message, layer: str, phase: str, overlaps: bool = False, position: int | None = None
    ) -> None:
        """Add a collective of a layer.

        One that ``overlaps`` runs beside the rank's own work. ``position`` is the number of the operator that it is;
        None for one that comes after all operators.
        """
        kind = _Kind(layer, message.kind, self._name_dimensions(message.ranks), phase, overlaps)
        total = self._sums.setdefault(kind, _Sum(len(message.ranks)))
        total.calls += 1
        total.bytes += message.bytes
        total.sent_bytes += message.sent_bytes
        alone = _Sum(total.ranks, 1, message.bytes, message.sent_bytes)
        self._in_order.append((position, _make_row(kind, alone)))

    def list_in_order(self, operators: int) -> tuple[PlacedCollective, ...]:
        """Return each collective of a step of so many operators."""
        placed = [PlacedCollective(operators if at is None else at, row) for at, row in self._in_order]
        return tuple(sorted(placed, key=lambda collective: collective.position))

    def list_collectives(self) -> tuple[Collective, ...]:
        """Return what was exchanged so far: equal collectives of a layer together."""
        return tuple(_make_row(kind, total) for kind, total in self._sums.items())

    def _name_dimensions(self, ranks: Sequence[int]) -> str:
        """Return the names of the dimensions of the mesh in which ranks differ, joined by commas."""
        step = prod(self.mesh.values())
        names = []
        for dimension, size in self.mesh.items():
            step //= size
            if len({rank // step % size for rank in ranks}) > 1:
                names.append(dimension)
        return ",".join(names)


def note_idle(mesh: Mapping[str, int], collectives: Iterable[Collective]) -> list[str]:
    """Return a note that names the dimensions of the mesh over which nothing is exchanged; none if there are none."""
    busy = {dimension for collective in collectives for dimension in collective.dimensions}
    idle = [name for name, size in mesh.items() if size > 1 and name not in busy]
    if not idle:
        return []
    return [f"nothing is exchanged over {', '.join(idle)}: what is spread over it, if anything is, counts as it is"]
