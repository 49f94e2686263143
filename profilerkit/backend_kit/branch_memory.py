"""The bytes alive in a program with branches of which nobody knows which is taken.

The branches that are counted make one timeline. Between which ends its peak lies is told by two further programs: each
branch is tried with the whole program around it, and the one that keeps the least, or the most, alive is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..trace.bounds import PeakSpread
from .program_parts import Fork, Loop, Parts, Taken, lay_out

__all__ = ["BranchedMemory", "measure_memory"]

#: The whole program is laid out for each side of each fork; beyond so many operators in all, nothing is said.
_MOST_OPERATORS = 100_000

#: Returns the bytes alive while each operator runs, of operators and the ranges of those that run more than once.
Timeline = Callable[[Sequence[Any], Sequence[tuple[int, int]]], Sequence[int]]


class BranchedMemory(NamedTuple):
    """The bytes alive while each counted operator runs, and how much their peak may differ."""

    live_bytes: tuple[int, ...]
    peak_spread: PeakSpread


def measure_memory(parts: Parts[Any], timeline: Timeline, input_bytes: int = 0) -> BranchedMemory:
    """Return the bytes alive in a program, and how much less or more their peak may be with other branches taken.

    Nothing is known of the peak where that would take too long.

    Here each operator is the number of bytes that are alive while it runs: 9 and then 7 on the counted side.

    >>> fork = Fork([[9, 7], [3]], "a condition")
    >>> measure_memory([5, fork, 4], lambda operators, loops: operators)
    BranchedMemory(live_bytes=(5, 9, 7, 4), peak_spread=PeakSpread(below=4, above=0, reasons=('a condition',)))
    """

    def list_alive(taken: Taken) -> list[int]:
        program = lay_out(parts, taken)
        alive = timeline(program.operators, program.loops)
        return [size for index, size in enumerate(alive) if index not in program.holds]

    def rank(taken: Taken) -> list[int]:
        """Return what is alive, the most first: programs of equal peaks differ in what comes next."""
        return sorted(list_alive(taken), reverse=True)

    def find_peak(taken: Taken) -> int:
        return max((input_bytes, *list_alive(taken)))

    counted = tuple(list_alive({}))
    forks = list(_list_forks(parts))
    if not forks:
        return BranchedMemory(counted, PeakSpread())
    everywhere = list(_list_all_forks(forks))
    programs = sum(len(fork.sides) for fork in everywhere)
    if programs * len(counted) > _MOST_OPERATORS or not all(fork.is_alike for fork in everywhere):
        return BranchedMemory(counted, PeakSpread(None, None, _list_reasons(forks)))
    least, most = (_choose_sides(forks, {}, choose, rank) for choose in (min, max))
    low, peak, high = map(find_peak, (least, {}, most))
    raising = [fork for fork in forks if low < high and find_peak(_choose_sides([fork], least, max, rank)) > low]
    return BranchedMemory(counted, PeakSpread(peak - low, high - peak, _list_reasons(raising)))


def _list_reasons(forks: Iterable[Fork[Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fork.reason for fork in forks))


def _choose_sides(
    forks: Iterable[Fork[Any]], taken: Taken, choose: Callable[..., Taken], rank: Callable[[Taken], list[int]]
) -> Taken:
    """Return which side each fork takes, those inside the sides included; the other forks do as ``taken`` says."""
    for fork in forks:
        trials = [
            _choose_sides(_list_forks(side), {**taken, fork: index}, choose, rank)
            for index, side in enumerate(fork.sides)
        ]
        taken = choose(trials, key=rank)
    return taken


def _list_forks(parts: Parts[Any]) -> Iterator[Fork[Any]]:
    """Yield the forks of a program, without those inside their sides."""
    for part in parts:
        if isinstance(part, Fork):
            yield part
        elif isinstance(part, Loop):
            yield from _list_forks(part.parts)


def _list_all_forks(forks: Iterable[Fork[Any]]) -> Iterator[Fork[Any]]:
    """Yield forks, and those inside their sides."""
    for fork in forks:
        yield fork
        for side in fork.sides:
            yield from _list_all_forks(_list_forks(side))
