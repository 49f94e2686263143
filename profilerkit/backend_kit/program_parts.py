"""The parts of a program in the order in which they run: operators, loops, and branches of which one runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = ["Fork", "Hold", "Loop", "Parts", "Program", "Taken", "Turns", "lay_out", "list_all", "list_counted"]

Op = TypeVar("Op")
V = TypeVar("V")


@dataclass(eq=False)
class Loop(Generic[Op]):
    """Parts that may run more than once."""

    parts: Parts[Op]


class Turns(NamedTuple):
    """How often the body of a loop runs.

    Attributes:
        least: How often at least.
        most: How often at most; None where no limit is known.
    """

    least: int
    most: int | None

    @property
    def exact(self) -> int | None:
        """How often the body runs, where that is known."""
        return self.most if self.least == self.most else None

    @property
    def number_to_count(self) -> int:
        """How many turns are counted: the most, or one where no limit is known."""
        return 1 if self.most is None else self.most


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

    def select_counted(self, values: Iterable[V]) -> list[V]:
        """Return the values of the counted operators, given one value for each operator."""
        return [value for index, value in enumerate(values) if index not in self.holds]


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
    return program.select_counted(program.operators)


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
