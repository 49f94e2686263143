"""The exchanges of one device, by the instructions of its program: the group, the bytes, and the additions."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from profilerkit.costs import Cost
from profilerkit_predict.meshes.records import Message, count_additions

from .device_program import DeviceProgram
from .divided_text import Exchange
from .groups import find_group
from .numbered import Chain

__all__ = ["RankExchange", "list_exchanges"]

#: The kinds that run after the equation whose results they add up. All other kinds run before the equation that reads
#: their result: an all-gather gives it whole weights.
_REDUCTIONS = ("all-reduce", "reduce-scatter")


class RankExchange(NamedTuple):
    """The exchange of a rank by one instruction, each time that it runs.

    Attributes:
        instruction: The instruction.
        message: The sent data. Its kind may differ from the kind of the instruction.
        cost: The additions of the rank, around a ring.
    """

    instruction: Exchange
    message: Message
    cost: Cost

    @property
    def is_reduction(self) -> bool:
        """Whether it adds up the results of an equation; otherwise it brings the inputs of an equation."""
        return self.message.kind in _REDUCTIONS


def list_exchanges(
    program: DeviceProgram, rank: int, ranks: int
) -> tuple[dict[Chain, list[RankExchange]], Counter[str]]:
    """Return the exchanges of a rank, by the numbers of equations.

    With them, the number of instructions, by kind, whose groups are not known.
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
    """Return the exchange of a group of ranks by an instruction, with the size of the whole tensor.

    If each rank keeps only its slice, an all-reduce is a reduce-scatter: XLA makes it one on devices that have it.
    """
    kind, parts = instruction.kind, 1
    if kind == "all-reduce" and instruction.slices == len(group):
        kind = "reduce-scatter"
    elif kind == "reduce-scatter":
        parts = len(group)  # the instruction returns one part of the whole tensor
    message = Message(kind, group, parts * instruction.bytes)
    return RankExchange(instruction, message, count_additions(message, parts * instruction.elements))
