"""What a step of one rank showed: its trace, its collectives, and what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from profilerkit import ModelTrace

__all__ = ["Collective", "RankTrace"]


@dataclass(frozen=True, slots=True)
class Collective:
    """Equal collectives of one layer.

    Attributes:
        layer: The path of the layer that needs them.
        kind: "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", ...
        dimension: The dimension of the mesh that they run over; several are joined by commas.
        ranks: How many ranks take part.
        phase: "forward" or "backward".
        calls: How many there are.
        bytes: The bytes of the whole tensors: what is gathered, scattered, reduced or exchanged.
        sent_bytes: The bytes that this rank sends, around a ring.
    """

    layer: str
    kind: str
    dimension: str
    ranks: int
    phase: str
    calls: int
    bytes: int
    sent_bytes: int


@dataclass(frozen=True)
class RankTrace:
    """One training step of one rank.

    Attributes:
        trace: The step, with the rank's own share of the weights, its own operators, and the bytes alive in it.
        collectives: What it exchanges with other ranks, in the order in which each first came.
        gradient_bytes: The bytes of the gradients that it keeps for the optimizer.
        peak_parts: What the bytes at the peak are for.
        unknown: Collectives that no size is known of, with the number of their calls.
    """

    trace: ModelTrace
    collectives: tuple[Collective, ...] = ()
    gradient_bytes: int = 0
    peak_parts: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
