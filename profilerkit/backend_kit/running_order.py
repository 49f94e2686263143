"""Operators in the order in which they run, with loops and branches, and the walk over a graph that notes them.

It is generic in the class of operators: those of formats are `graph_work.Executed`, and a backend whose operators have
more to tell has a class of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from ..trace.bounds import PeakSpread

__all__ = ["Body", "Countable", "Numbered", "RunningOrder", "Turns", "count_one", "note_apart"]


class Countable(Protocol):
    """An operator with the work of all its runs, and the work that is not counted, in words."""

    times: int
    macs: int
    flops: int
    missing: str


class Numbered(Protocol):
    """A value that is known by its number."""

    @property
    def number(self) -> int: ...


Op = TypeVar("Op", bound=Countable)
C = TypeVar("C")  # a choice, as the backend notes it


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


@dataclass
class RunningOrder(Generic[Op, C]):
    """Operators in the order of execution, with the loops among them, and the branches of which only one runs.

    Attributes:
        operators: The operators that are counted, in order.
        steps: The same, with operators that are not counted: they only keep values alive until there.
        holds: The places of the latter among the steps. Each branch or loop begins with one that reads all values that
            it is given, even those that only the other branch reads.
        loops: The ranges of steps that may run more than once, as (start, end).
        choices: Places where the model does one of several things, and it is not known which.
        missed: Further uncounted work, with its calls: work that only uncounted branches have, and loops with an
            unknown number of turns.
        undecided: Why other operators than these may run, and other bytes be alive.
    """

    operators: list[Op] = field(default_factory=list)
    steps: list[Op] = field(default_factory=list)
    holds: set[int] = field(default_factory=set)
    loops: list[tuple[int, int]] = field(default_factory=list)
    choices: list[C] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    undecided: list[str] = field(default_factory=list)

    def append(self, op: Op) -> None:
        """Add the operator that runs next."""
        self.operators.append(op)
        self.steps.append(op)

    def hold(self, op: Op) -> None:
        """Keep values alive until here that an uncounted operator reads."""
        self.holds.add(len(self.steps))
        self.steps.append(op)

    def add(self, other: Self) -> None:
        """Add operators that run next."""
        first = len(self.steps)
        self.holds.update(first + index for index in other.holds)
        self.loops += [(first + start, first + end) for start, end in other.loops]
        self.operators += other.operators
        self.steps += other.steps
        self.choices += other.choices
        self.missed += other.missed
        self.undecided += other.undecided

    def add_loop(self, body: Self) -> None:
        """Add operators that run next, and may run more than once."""
        start = len(self.steps)
        self.add(body)
        self.loops.append((start, len(self.steps)))

    def select_counted(self, values: Iterable[int]) -> tuple[int, ...]:
        """Return of values, one for each step, those of the counted operators."""
        return tuple(value for index, value in enumerate(values) if index not in self.holds)

    @property
    def peak_spread(self) -> PeakSpread:
        """How much the peak of these bytes may differ: that is not known where something is undecided."""
        return PeakSpread(None, None, tuple(dict.fromkeys(self.undecided))) if self.undecided else PeakSpread()

    @property
    def price(self) -> tuple[int, int]:
        """The key by which branches are compared: FLOPs, then MACs."""
        return sum(op.flops for op in self.operators), sum(op.macs for op in self.operators)

    def count_missing(self) -> Counter[str]:
        """Return the uncounted work, with its calls."""
        missing = self.missed.copy()
        for op in self.operators:
            if op.missing:
                missing[op.missing] += max(op.times, 1)
        return missing


W = TypeVar("W", bound=RunningOrder[Any, Any])
V_co = TypeVar("V_co", bound=Numbered, covariant=True)


@dataclass(frozen=True)
class Body(Generic[W, V_co]):
    """The work of a graph inside an operator, such as a branch, and the values that it returns."""

    work: W
    outputs: Sequence[V_co]


class NotesWork(Protocol[W]):
    """A walk over a graph, which notes the operators that run."""

    work: W


@contextmanager
def note_apart(walk: NotesWork[W]) -> Iterator[W]:
    """Yield the work of the walk inside the block, apart from its work so far."""
    work_so_far, walk.work = walk.work, type(walk.work)()
    try:
        yield walk.work
    finally:
        walk.work = work_so_far


def count_one(counted: W, others: Sequence[W], choices: Sequence[Any], reason: str) -> W:
    """Return the work of an operator that runs one of several bodies: the work of one, and how the others differ.

    Uncounted operators of all bodies are named. How much the others change the bytes alive is not known.

    Args:
        counted: The work of the body that is counted.
        others: The work of the bodies that may run instead.
        choices: The choices of the work of all bodies, the counted one first.
        reason: Why it is not known which one runs, and which one is counted.
    """
    of_counted = counted.count_missing()
    missing = reduce(or_, (work.count_missing() for work in others), of_counted)
    return replace(counted, choices=list(choices), missed=counted.missed + (missing - of_counted), undecided=[reason])
