"""The bytes alive in a program where nobody knows which of its branches is taken.

The branches that are counted make one timeline. The ends of its peak are the lowest and the highest peak of all
programs that the model may run: one for each way through its branches.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from ..trace.bounds import PeakSpread
from .program_parts import Fork, Loop, Parts, Taken, lay_out, list_all

__all__ = ["BranchedMemory", "measure_memory"]

#: The most operators of all programs together; nothing is said of the peak where there are more.
_MOST_OPERATORS = 500_000

#: Returns the bytes alive while each operator runs, given the operators and the ranges that run more than once.
Timeline = Callable[[Sequence[Any], Sequence[tuple[int, int]]], Sequence[int]]


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
    reasons = tuple(dict.fromkeys(fork.reason for fork in _list_forks(parts)))
    if not reasons:
        return BranchedMemory(counted, PeakSpread())
    unknown = BranchedMemory(counted, PeakSpread(None, None, reasons))
    operators_of_all_sides = max(1, sum(1 for _ in list_all(parts)))
    if _count_ways(parts) * operators_of_all_sides > _MOST_OPERATORS:
        return unknown
    ways = _list_ways(parts)
    if not all(fork.is_alike for way in ways for fork in way):
        return unknown
    peaks = [max((input_bytes, *_list_alive(parts, way, timeline))) for way in ways]
    peak = max((input_bytes, *counted))
    below, above = peak - min(peaks), max(peaks) - peak
    return BranchedMemory(counted, PeakSpread(below, above, reasons if below or above else ()))


def _list_alive(parts: Parts[Any], way: Taken, timeline: Timeline) -> tuple[int, ...]:
    """Return the bytes alive while each counted operator runs, along one way through the forks."""
    program = lay_out(parts, way)
    return tuple(program.select_counted(timeline(program.operators, program.loops)))


def _list_forks(parts: Parts[Any]) -> Iterator[Fork[Any]]:
    """Yield the forks of a program, without forks inside their sides."""
    for part in parts:
        if isinstance(part, Fork):
            yield part
        elif isinstance(part, Loop):
            yield from _list_forks(part.parts)


def _count_ways(parts: Parts[Any]) -> int:
    """Return the number of ways through the forks of a program, without going through them."""
    ways = 1
    for fork in _list_forks(parts):
        ways *= sum(map(_count_ways, fork.sides))
    return ways


def _list_ways(parts: Parts[Any]) -> list[Taken]:
    """Return every way through the forks of a program, and through the forks in their sides."""
    ways_through_forks = [
        [{fork: index, **way} for index, side in enumerate(fork.sides) for way in _list_ways(side)]
        for fork in _list_forks(parts)
    ]
    return [dict(ChainMap(*ways)) for ways in product(*ways_through_forks)]
