"""The bytes alive in a program where nobody knows which of its branches is taken.

The branches that are counted make one timeline. The ends of its peak are the lowest and the highest peak of all
programs that the model may run: one for each way through its branches.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from ..trace.bounds import PeakSpread
from .program_parts import Fork, Loop, Parts, Taken, lay_out

__all__ = ["BranchedMemory", "measure_memory"]

#: The most operators of all programs together; nothing is said of the peak where there are more.
_MOST_OPERATORS = 500_000

#: Returns the bytes alive while each operator runs, given the operators and the ranges that run more than once.
Timeline = Callable[[Sequence[Any], Sequence[tuple[int, int]]], Sequence[int]]
#: The index of the side that each fork on a way takes.
_Way = ChainMap[Fork[Any], int]


class BranchedMemory(NamedTuple):
    """The bytes alive while each counted operator runs, and how much their peak may differ."""

    live_bytes: tuple[int, ...]
    peak_spread: PeakSpread


def measure_memory(parts: Parts[Any], timeline: Timeline, input_bytes: int = 0) -> BranchedMemory:
    """Return the bytes alive in a program, and how much less or more their peak may be with other branches taken.

    Here each operator is the number of bytes that are alive while it runs: 9 and then 7 on the counted side.

    >>> fork = Fork([[9, 7], [3]], "a condition")
    >>> measure_memory([5, fork, 4], lambda operators, loops: operators)
    BranchedMemory(live_bytes=(5, 9, 7, 4), peak_spread=PeakSpread(below=4, above=0, reasons=('a condition',)))
    """
    counted = _list_alive(parts, {}, timeline)
    forks = list(_list_forks(parts))
    if not forks:
        return BranchedMemory(counted, PeakSpread())
    unknown = BranchedMemory(counted, PeakSpread(None, None, _list_reasons(forks)))
    if _count_programs(parts).operators > _MOST_OPERATORS:
        return unknown
    ways = list(map(_list_ways, forks))
    if not all(fork.is_alike for choices in ways for way in choices for fork in way):
        return unknown
    peaks = {}  # of each program, by the index of the way through each fork
    for taken in product(*(range(len(choices)) for choices in ways)):
        way = ChainMap(*(choices[index] for choices, index in zip(ways, taken, strict=True)))
        peaks[taken] = max((input_bytes, *_list_alive(parts, way, timeline)))
    peak = max((input_bytes, *counted))
    causes = [fork for position, fork in enumerate(forks) if _decides(position, peaks)]
    spread = PeakSpread(peak - min(peaks.values()), max(peaks.values()) - peak, _list_reasons(causes))
    return BranchedMemory(counted, spread)


def _list_alive(parts: Parts[Any], way: Taken, timeline: Timeline) -> tuple[int, ...]:
    """Return the bytes alive while each counted operator runs, along one way through the forks."""
    program = lay_out(parts, way)
    return tuple(program.select_counted(timeline(program.operators, program.loops)))


def _decides(position: int, peaks: dict[tuple[int, ...], int]) -> bool:
    """Return whether a peak depends on the way through the fork at one position."""
    return any(peak != peaks[*taken[:position], 0, *taken[position + 1 :]] for taken, peak in peaks.items())


def _list_reasons(forks: Iterable[Fork[Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fork.reason for fork in forks))


def _list_forks(parts: Parts[Any]) -> Iterator[Fork[Any]]:
    """Yield the forks of a program, without forks inside their sides."""
    for part in parts:
        if isinstance(part, Fork):
            yield part
        elif isinstance(part, Loop):
            yield from _list_forks(part.parts)


class _Programs(NamedTuple):
    """How many programs some parts may be, and how many operators all of these have together."""

    ways: int
    operators: int


def _count_programs(parts: Parts[Any]) -> _Programs:
    """Return the number of ways through parts, and their operators, without going through them."""
    ways, operators = 1, 0
    for part in parts:
        if isinstance(part, Loop):
            inner = _count_programs(part.parts)
        elif isinstance(part, Fork):
            sides = [_count_programs(side) for side in part.sides]
            inner = _Programs(sum(side.ways for side in sides), sum(side.operators for side in sides))
        else:
            inner = _Programs(1, 1)
        ways, operators = ways * inner.ways, operators * inner.ways + inner.operators * ways
    return _Programs(ways, operators)


def _list_ways(fork: Fork[Any]) -> list[_Way]:
    """Return every way through a fork and through the forks in its sides, that through the counted sides first."""
    return [
        ChainMap({fork: index}, *inner)
        for index, side in enumerate(fork.sides)
        for inner in product(*map(_list_ways, _list_forks(side)))
    ]
