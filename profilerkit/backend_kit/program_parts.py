"""The parts of a program in the order in which they run, and the bytes alive where nobody knows which branch is taken.

The branches that are counted make one timeline. The ends of its peak are the lowest and the highest peak of all
programs that the model may run: one for each way through its branches.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from ..trace.bounds import PeakSpread

__all__ = [
    "BranchedMemory",
    "Fork",
    "Hold",
    "Loop",
    "Parts",
    "Program",
    "Taken",
    "lay_out",
    "list_all",
    "list_counted",
    "measure_memory",
]

Op = TypeVar("Op")


@dataclass(eq=False)
class Loop(Generic[Op]):
    """Parts that may run more than once."""

    parts: Parts[Op]


@dataclass(eq=False)
class Hold(Generic[Op]):
    """A part that keeps values alive until here: like an operator that reads them, but it is not counted.

    Each branch or loop begins with one, for all values that it is given, even those that only the other branch reads.
    """

    op: Op


@dataclass(eq=False)
class Fork(Generic[Op]):
    """A place where one of several branches (sides) runs, and it is not known which.

    Attributes:
        sides: The parts of each side; the first side is counted.
        reason: What is not known, and what is counted instead.
        is_alike: Whether each side makes values like those of the first side. If not, the bytes alive behind the fork
            are not known.
    """

    sides: Sequence[Parts[Op]]
    reason: str
    is_alike: bool = True


Parts: TypeAlias = "Sequence[Op | Hold[Op] | Loop[Op] | Fork[Op]]"
#: The index of the side that each fork takes; 0, the counted side, for all others.
Taken: TypeAlias = Mapping[Fork[Any], int]


class Program(NamedTuple):
    """The operators of a program in one sequence.

    Attributes:
        operators: All operators, with those that are not counted.
        loops: The range of operators of each loop, as (start, end).
        holds: The indices of the operators that are not counted.
    """

    operators: list[Any]
    loops: list[tuple[int, int]]
    holds: set[int]


def lay_out(parts: Parts[Any], taken: Taken | None = None) -> Program:
    """Return the operators of a program in which each fork takes one side.

    >>> lay_out(["a", Loop([Hold("b"), Fork([["c"], ["d", "e"]], "")])])
    Program(operators=['a', 'b', 'c'], loops=[(1, 3)], holds={1})
    """
    program = Program([], [], set())
    _append(program, parts, taken or {})
    return program


def _append(program: Program, parts: Parts[Any], taken: Taken) -> None:
    for part in parts:
        start = len(program.operators)
        if isinstance(part, Loop):
            _append(program, part.parts, taken)
            program.loops.append((start, len(program.operators)))
        elif isinstance(part, Fork):
            _append(program, part.sides[taken.get(part, 0)], taken)
        elif isinstance(part, Hold):
            program.holds.add(start)
            program.operators.append(part.op)
        else:
            program.operators.append(part)


def list_counted(parts: Parts[Op]) -> list[Op]:
    """Return the operators that are counted, in order."""
    program = lay_out(parts)
    return [op for index, op in enumerate(program.operators) if index not in program.holds]


def list_all(parts: Parts[Op]) -> Iterator[Op]:
    """Yield the operators of all sides, with those that are not counted.

    >>> list(list_all(["a", Loop([Hold("b"), Fork([["c"], ["d", "e"]], "")])]))
    ['a', 'b', 'c', 'd', 'e']
    """
    for part in parts:
        if isinstance(part, Loop):
            yield from list_all(part.parts)
        elif isinstance(part, Fork):
            for side in part.sides:
                yield from list_all(side)
        else:
            yield part.op if isinstance(part, Hold) else part


# The bytes alive in them ----------------------------------------------------------------------------------------------


#: The most operators of all programs together; nothing is said of the peak where there are more.
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
    is_too_long = _count_programs(parts).operators > _MOST_OPERATORS
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
