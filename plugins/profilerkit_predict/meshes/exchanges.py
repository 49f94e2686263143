"""What one rank exchanges in a step, between which ranks, and over which dimensions of the mesh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from profilerkit.costs import Cost
from profilerkit.costs.reduction import all_reduce

from .layout import list_strides
from .records import Collective

__all__ = ["Message", "count_additions", "make_collective", "note_idle"]


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


def count_additions(message: Message, elements: int) -> Cost:
    """Return the additions of a rank for a whole tensor of so many elements, where data goes around a ring of n ranks.

    To reduce and scatter, a rank adds up n parts of each element of its share, the n-th part of the whole. To
    reduce for all it does the same, ``(n - 1) / n`` additions for each element of the whole, which are rounded up to
    one. Other collectives add up nothing.
    """
    ranks = len(message.ranks)
    if message.kind == "all-reduce":
        return all_reduce(elements, summands=2)
    if message.kind == "reduce-scatter":
        share = -(-elements // ranks)  # rounded up
        return all_reduce(share, summands=ranks)
    return Cost(0, 0)


def make_collective(message: Message, layer: str, phase: str, overlaps: bool, mesh: Mapping[str, int]) -> Collective:
    """Return one collective of a layer over a mesh; one that ``overlaps`` runs beside the rank's own work."""
    dimension = ",".join(_list_dimensions(message.ranks, mesh))
    ranks = len(message.ranks)
    return Collective(layer, message.kind, dimension, ranks, phase, 1, message.bytes, message.sent_bytes, overlaps)


def _list_dimensions(ranks: Sequence[int], mesh: Mapping[str, int]) -> Iterator[str]:
    """Yield the names of the dimensions of a mesh in which ranks differ."""
    for dimension, stride in list_strides(mesh).items():
        if len({rank // stride % mesh[dimension] for rank in ranks}) > 1:
            yield dimension


def note_idle(mesh: Mapping[str, int], collectives: Iterable[Collective]) -> list[str]:
    """Return a note that names the dimensions of the mesh over which nothing is exchanged; none if there are none."""
    busy = {dimension for collective in collectives for dimension in collective.dimensions}
    idle = [name for name, size in mesh.items() if size > 1 and name not in busy]
    if not idle:
        return []
    return [f"nothing is exchanged over {', '.join(idle)}: what is spread over it, if anything is, counts as it is"]
