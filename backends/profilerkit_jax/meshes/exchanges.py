"""What one device exchanges by each instruction of its program: with whom, how much, and what it adds up."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from profilerkit.costs import Cost
from profilerkit_predict.meshes.records import Message, count_additions

from .device_program import DeviceProgram, Exchange
from .groups import find_group
from .numbered import Chain

__all__ = ["RankExchange", "list_exchanges"]

#: The kinds that run after the equation whose results they add up. All others run before the equation that reads what
#: they bring: an all-gather brings it whole weights.
_REDUCTIONS = ("all-reduce", "reduce-scatter")


class RankExchange(NamedTuple):
    """What a rank exchanges by one instruction, each time that it runs.

    Attributes:
        instruction: The instruction.
        message: What is sent. Its kind may differ from that of the instruction.
        cost: What the rank adds up, around a ring.
    """

    instruction: Exchange
    message: Message
    cost: Cost

    @property
    def is_reduction(self) -> bool:
        """Whether it adds up the results of an equation; otherwise it brings what an equation reads."""
        return self.message.kind in _REDUCTIONS


def list_exchanges(
    program: DeviceProgram, rank: int, ranks: int
) -> tuple[dict[Chain, list[RankExchange]], Counter[str]]:
    """Return what a rank exchanges, by the numbers of equations.

    With it, how many instructions there are, by kind, of which it is not known who takes part.
    """
    exchanges: dict[Chain, list[RankExchange]] = {}
    unknown = Counter[str]()
    for instruction in program.exchanges:
        try:
            group = find_group(instruction.groups, rank, ranks)
        except LookupError:
            unknown[instruction.kind] += 1
            continue
        if len(group) > 1:
            exchanges.setdefault(instruction.chain, []).append(_read_exchange(instruction, group))
    return exchanges, unknown


def _read_exchange(instruction: Exchange, group: tuple[int, ...]) -> RankExchange:
    """Return what a group of ranks exchanges by an instruction, with the size of the whole tensor.

    An all-reduce of which each rank keeps only its slice is a reduce-scatter: XLA makes it one on devices that have it.
    """
    kind, parts = instruction.kind, 1
    if kind == "all-reduce" and instruction.slices == len(group):
        kind = "reduce-scatter"
    elif kind == "reduce-scatter":
        parts = len(group)  # the instruction returns one part of the whole tensor
    message = Message(kind, group, parts * instruction.bytes)
    return RankExchange(instruction, message, count_additions(message, parts * instruction.elements))
