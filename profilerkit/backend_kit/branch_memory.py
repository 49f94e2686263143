"""The bytes alive in a program with branches of which nobody knows which is taken.

The branches that are counted make one timeline. The ends of its peak are the lowest and the highest peak of all
programs that the model may run: one for each way through its branches.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from ..trace.bounds import PeakSpread
from .program_parts import Fork, Loop, Parts, lay_out

__all__ = ["BranchedMemory", "measure_memory"]

#: The most operators of all these programs together; nothing is said of the peak where there are more.
_MOST_OPERATORS = 500_000

#: Returns the bytes alive while each operator runs, of operators and the ranges of those that run more than once.
Timeline = Callable[[Sequence[Any], Sequence[tuple[int, int]]], Sequence[int]]
#: The index of the side that each fork takes, of those that are come by.
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

    def list_alive(way: _Way) -> tuple[int, ...]:
        program = lay_out(parts, way)
        alive = timeline(program.operators, program.loops)
        return tuple(size for index, size in enumerate(alive) if index not in program.holds)

    def find_peak(taken: tuple[int, ...]) -> int:
        way = ChainMap(*(choices[index] for choices, index in zip(ways, taken, strict=True)))
        return max((input_bytes, *list_alive(way)))

    counted = list_alive(ChainMap())
    forks = list(_list_forks(parts))
    if not forks:
        return BranchedMemory(counted, PeakSpread())
    is_too_long = _count_ways(parts) * len(counted) > _MOST_OPERATORS
    ways = [] if is_too_long else list(map(_list_ways, forks))
    if is_too_long or not all(fork.is_alike for choices in ways for way in choices for fork in way):
        return BranchedMemory(counted, PeakSpread(None, None, _list_reasons(forks)))
    peaks = {taken: find_peak(taken) for taken in product(*(range(len(choices)) for choices in ways))}
    peak = max((input_bytes, *counted))
    causes = [fork for position, fork in enumerate(forks) if _decides(position, peaks)]
    spread = PeakSpread(peak - min(peaks.values()), max(peaks.values()) - peak, _list_reasons(causes))
    return BranchedMemory(counted, spread)


def _decides(position: int, peaks: dict[tuple[int, ...], int]) -> bool:
    """Return whether a peak depends on what the fork at one position does; each is by what all forks do."""
    return any(peak != peaks[*taken[:position], 0, *taken[position + 1 :]] for taken, peak in peaks.items())


def _list_reasons(forks: Iterable[Fork[Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fork.reason for fork in forks))


def _list_forks(parts: Parts[Any]) -> Iterator[Fork[Any]]:
    """Yield the forks of a program, without those inside their sides."""
    for part in parts:
        if isinstance(part, Fork):
            yield part
        elif isinstance(part, Loop):
            yield from _list_forks(part.parts)


def _count_ways(parts: Parts[Any]) -> int:
    return math.prod(sum(map(_count_ways, fork.sides)) for fork in _list_forks(parts))


def _list_ways(fork: Fork[Any]) -> list[_Way]:
    """Return every way through a fork and through the forks in its sides, that through the counted sides first."""
    return [
        ChainMap({fork: index}, *inner)
        for index, side in enumerate(fork.sides)
        for inner in product(*map(_list_ways, _list_forks(side)))
    ]
