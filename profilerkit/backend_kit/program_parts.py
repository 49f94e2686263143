"""The parts of a program in the order in which they run: operators, loops, and forks, of which one side runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = ["Fork", "Hold", "Loop", "Parts", "Program", "Taken", "lay_out", "list_counted"]

Op = TypeVar("Op")


@dataclass(eq=False)
class Loop(Generic[Op]):
    """Parts that may run more than once."""

    parts: Parts[Op]


@dataclass(eq=False)
class Hold(Generic[Op]):
    """What keeps values alive until here: an operator that reads them, and is not counted.

    A branch or loop has one at its beginning, with all that it is given: also what only the other branch would read.
    """

    op: Op


@dataclass(eq=False)
class Fork(Generic[Op]):
    """Where one of several sides runs, and nobody knows which.

    Attributes:
        sides: The parts of each side; those of the first one are counted.
        reason: What is not known, and what is counted instead.
        is_alike: Whether each side makes the values that follow from the first one. If not, nothing is known of the
            bytes alive behind it.
    """

    sides: Sequence[Parts[Op]]
    reason: str
    is_alike: bool = True


Parts: TypeAlias = "Sequence[Op | Hold[Op] | Loop[Op] | Fork[Op]]"
#: The index of the side that each fork takes; 0, the counted side, for all others.
Taken: TypeAlias = Mapping[Fork[Any], int]


class Program(NamedTuple):
    """The operators of a program one after the other.

    Attributes:
        operators: All of them, also those that are not counted.
        loops: The range of operators of each loop, from the first one to the one behind the last.
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
