"""What one device exchanges by each instruction of its program: with whom, how much, and what it adds up."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from profilerkit.costs import Cost
from profilerkit_predict.meshes.exchanges import Message, count_additions

from .device_program import DeviceProgram, Exchange
from .groups import find_group
from .numbered import Chain

__all__ = ["RankExchange", "list_exchanges"]

#: The kinds that come after the equation that they are made of; the others bring it what it reads.
_REDUCTIONS = ("all-reduce", "reduce-scatter")


class RankExchange(NamedTuple):
    """What a rank exchanges by one instruction, each time that it runs."""

    instruction: Exchange
    message: Message

    @property
    def is_reduction(self) -> bool:
        """Whether it adds up what an equation made; otherwise it brings the equation what that reads."""
        return self.message.kind in _REDUCTIONS

    @property
    def cost(self) -> Cost:
        """What the rank adds up, around a ring."""
        parts = len(self.message.ranks) if self.instruction.kind == "reduce-scatter" else 1  # it returns one of them
        return count_additions(self.message, parts * self.instruction.elements)


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
            exchange = RankExchange(instruction, _read_message(instruction, group))
            exchanges.setdefault(instruction.chain, []).append(exchange)
    return exchanges, unknown


def _read_message(instruction: Exchange, group: tuple[int, ...]) -> Message:
    """Return what an instruction exchanges; an all-reduce of which each device keeps its slice is a reduce-scatter.

    XLA makes it one for the devices that have it.
    """
    kind, size = instruction.kind, instruction.bytes
    if kind == "all-reduce" and instruction.slices == len(group):
        kind = "reduce-scatter"
    elif kind == "reduce-scatter":
        size *= len(group)
    return Message(kind, group, size)
