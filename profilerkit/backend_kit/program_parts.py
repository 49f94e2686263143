"""The parts of a program in the order in which they run: operators, loops, and holds of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = ["Hold", "Loop", "Parts", "Program", "Turns", "lay_out", "list_counted"]

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


Parts: TypeAlias = "Sequence[Op | Hold[Op] | Loop[Op]]"


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


def lay_out(parts: Parts[Any]) -> Program:
    """Return the operators of a program in one sequence.

    >>> lay_out(["a", Loop([Hold("b"), "c"])])
    Program(operators=['a', 'b', 'c'], loops=[(1, 3)], holds={1})
    """
    program = Program([], [], set())
    _append(program, parts)
    return program


def _append(program: Program, parts: Parts[Any]) -> None:
    for part in parts:
        start = len(program.operators)
        if isinstance(part, Loop):
            _append(program, part.parts)
            program.loops.append((start, len(program.operators)))
        elif isinstance(part, Hold):
            program.holds.add(start)
            program.operators.append(part.op)
        else:
            program.operators.append(part)


def list_counted(parts: Parts[Op]) -> list[Op]:
    """Return the operators that are counted, in order."""
    program = lay_out(parts)
    return program.select_counted(program.operators)
