"""The record of a step of one rank: its trace, its collectives, and the memory that it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from profilerkit import ModelTrace
from profilerkit.costs import Cost
from profilerkit.costs.reduction import all_reduce
from profilerkit.count_text import format_count
from profilerkit.process.cached import cached_property
from profilerkit.trace.records import WeightRecord

from .layout import find_places, list_group


class Purpose(NamedTuple):
    """The purpose of bytes on a rank.

    Attributes:
        part: "weights", "gathered weights", "inputs", "activations", "gradients", "communication", "other", ...
        layer: The path of the layer that has or made them; empty for the model itself.
    """

    part: str
    layer: str


def sum_parts(sizes: Mapping[Purpose, int]) -> dict[str, int]:
    """Return the bytes of each part of memory, all layers together."""
    parts: Counter[str] = Counter()
    for purpose, size in sizes.items():
        parts[purpose.part] += size
    return dict(parts)


@dataclass(frozen=True, slots=True)
class Collective:
    """Equal collectives of one layer.

    Attributes:
        layer: The path of the layer that needs them.
        kind: "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", ...
        dimension: The dimension of the mesh that they run over; several are joined by commas.
        ranks: How many ranks take part.
        phase: "forward", "backward", or "update" of the weights by the optimizer.
        calls: How many there are.
        bytes: The bytes of the whole tensors that are gathered, scattered, reduced or exchanged.
        sent_bytes: The bytes that this rank sends, around a ring.
        overlaps: Whether they run beside the rank's work, like the gathering of weights and the reduction of gradients;
            the next operator waits for any other collective.
    """

    layer: str
    kind: str
    dimension: str
    ranks: int
    phase: str
    calls: int
    bytes: int
    sent_bytes: int
    overlaps: bool

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions of the mesh that they run over."""
        return tuple(self.dimension.split(","))

    @property
    def is_sent(self) -> bool:
        """Whether one rank sends it to another, like between the stages of a pipeline."""
        return self.kind in ("send", "receive")

    def list_partners(self, rank: int, mesh: Mapping[str, int]) -> list[int]:
        """Return the ranks of a mesh that take part together with this rank: sender and receiver if one rank sends.

        Outputs go to the next stage, and gradients to the stage before, around a ring.
        """
        group = list_group(rank, mesh, self.dimensions)
        if not self.is_sent:
            return group
        step = 1 if (self.phase == "forward") == (self.kind == "send") else -1
        other = group[(group.index(rank) + step) % len(group)]
        return [rank, other] if self.kind == "send" else [other, rank]

    def add(self, other: Collective) -> Collective:
        """Return the sum of both collectives, which are equal except for calls and bytes."""
        return replace(
            self,
            calls=self.calls + other.calls,
            bytes=self.bytes + other.bytes,
            sent_bytes=self.sent_bytes + other.sent_bytes,
        )


@dataclass(frozen=True, slots=True)
class PlacedCollective:
    """One collective of a step.

    Attributes:
        position: The number of its operator in the step's trace; in the update, the number behind the last operator.
        collective: Its data and ranks, for one call.
    """

    position: int
    collective: Collective


@dataclass(frozen=True)
class OptimizerShare:
    """The partitions of the weights that the optimizer of a rank updates in place of the weights.

    Attributes:
        weights: The partitions.
        copy_bytes: The bytes of the partitions if they are copies, which the rank keeps beside the weights.
        update_bytes: The bytes of the gradients of partitions, copied while these are updated.
    """

    weights: tuple[WeightRecord, ...]
    copy_bytes: int
    update_bytes: int


@dataclass(frozen=True)
class RankTrace:
    """One training step of one rank.

    Attributes:
        trace: The step, with the rank's share of the weights, its operators, and the bytes alive in it.
        gradient_bytes: The bytes of the gradients that it keeps for the optimizer.
        peak: The bytes at the peak by purpose, weights included.
        left: The bytes after the passes by purpose, when the weights are updated.
        unknown: Collectives of unknown size, with the number of their calls.
        optimizer_share: The partitions that the optimizer updates; None: the rank's share of the weights.
        exchanged: Each collective, in the order of the operators.
        description: The rank and its mesh, in words; also a note of the trace.
    """

    trace: ModelTrace
    gradient_bytes: int = 0
    peak: Mapping[Purpose, int] = field(default_factory=dict)
    left: Mapping[Purpose, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    optimizer_share: OptimizerShare | None = None
    exchanged: tuple[PlacedCollective, ...] = ()
    description: str = ""

    @cached_property
    def collectives(self) -> tuple[Collective, ...]:
        """The collectives of the step: equal collectives of a layer as one, in the order of their first calls."""
        sums: dict[Collective, Collective] = {}
        for placed in self.exchanged:
            kind = replace(placed.collective, calls=0, bytes=0, sent_bytes=0)
            sums[kind] = sums.get(kind, kind).add(placed.collective)
        return tuple(sums.values())

    def list_unknown(self) -> tuple[str, ...]:
        """Return the collectives of unknown size, in words."""
        return tuple(f"{name} ({format_count(calls, 'call')})" for name, calls in sorted(self.unknown.items()))


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
    """Return the additions of a rank for a whole tensor of so many elements, if data goes around a ring of n ranks.

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
    """Return one collective of a layer over a mesh; a collective that ``overlaps`` runs beside the rank's work."""
    ranks, places = len(message.ranks), [find_places(rank, mesh) for rank in message.ranks]
    # It runs over the dimensions in which the ranks differ.
    dimension = ",".join(name for name in mesh if len({of_rank[name] for of_rank in places}) > 1)
    return Collective(layer, message.kind, dimension, ranks, phase, 1, message.bytes, message.sent_bytes, overlaps)


def note_idle(mesh: Mapping[str, int], collectives: Iterable[Collective]) -> list[str]:
    """Return a note that names the dimensions of the mesh over which nothing is exchanged; none if there are none."""
    busy = {dimension for collective in collectives for dimension in collective.dimensions}
    idle = [name for name, size in mesh.items() if size > 1 and name not in busy]
    if not idle:
        return []
    return [f"nothing is exchanged over {', '.join(idle)}: what is spread over it, if anything is, counts as it is"]
