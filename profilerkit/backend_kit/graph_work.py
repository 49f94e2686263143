"""What runs when a graph of operators runs.

A backend that goes over a graph in its order notes each operator as `Executed` in a `Work`, with the loops and
branches around it; `graph_traces.trace_work` makes the trace of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from ..trace.bounds import Branch, Choice
from .program_parts import Fork, Hold, Loop, list_counted
from .scoped_calls import ScopedValue

__all__ = [
    "HANDING_ON",
    "Body",
    "Countable",
    "Executed",
    "GraphValue",
    "RunningOrder",
    "Turns",
    "Work",
    "count_first",
    "count_one",
    "make_choices",
    "note_apart",
]

#: The operator that returns the values of one body as those of another: they share their buffers.
HANDING_ON = "Identity"


class GraphValue(ScopedValue, Protocol):
    """A value of a graph, with what is known of its size before the model runs."""

    @property
    def shape(self) -> Any:
        """Its shape; None where a size is not known."""

    @property
    def bytes(self) -> int:
        """The bytes that it takes; 0 where its shape is not known."""


class Numbered(Protocol):
    """A value that is known by its number."""

    @property
    def number(self) -> int: ...


V = TypeVar("V", bound=Numbered)
G = TypeVar("G", bound=GraphValue)


@dataclass(eq=False)
class Executed:
    """One operator that a walk came by, in the order of execution.

    Attributes:
        operator: Its name: "Conv", "com.microsoft::Gelu".
        node: The index of the node of the model's own graph that it comes from.
        inputs: The values that it reads.
        outputs: The values that it makes.
        times: How many times it runs.
        macs: Multiply-accumulates of all its runs together.
        flops: Floating-point operations of all its runs together.
        missing: What is not counted of it, in words; empty where all is.
        is_masked: Whether it is attention of which a mask takes scores away.
        product_dtype: The dtype that a product multiplies where its inputs and outputs do not tell; otherwise None.
    """

    operator: str
    node: int
    inputs: Sequence[GraphValue]
    outputs: Sequence[GraphValue]
    times: int = 1
    macs: int = 0
    flops: int = 0
    missing: str = ""
    is_masked: bool = False
    product_dtype: str | None = None


class Countable(Protocol):
    """An operator with its work in all of its runs, and what is not counted of it, in words."""

    times: int
    macs: int
    flops: int
    missing: str


Op = TypeVar("Op", bound=Countable)
C = TypeVar("C")


@dataclass
class RunningOrder(Generic[Op, C]):
    """Operators in the order in which they run, and where among them are loops, and branches of which one runs.

    Attributes:
        parts: Operators, loops, forks, and what holds values until there, in order.
        choices: Where the model does one of several things, and which one is not known.
        missed: What is not counted beside the operators, with its calls: what only branches have that are not counted
            themselves, and loops that run nobody knows how often.
    """

    parts: list[Op | Hold[Op] | Loop[Op] | Fork[Op]] = field(default_factory=list)
    choices: list[C] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)

    @property
    def operators(self) -> tuple[Op, ...]:
        """The operators that are counted, in order."""
        return tuple(list_counted(self.parts))

    def append(self, op: Op) -> None:
        """Add the operator that runs next."""
        self.parts.append(op)

    def hold(self, op: Op) -> None:
        """Keep alive until here what an operator reads that is not counted."""
        self.parts.append(Hold(op))

    def add(self, other: Self) -> None:
        """Add what runs next."""
        self.parts += other.parts
        self.choices += other.choices
        self.missed += other.missed

    def add_loop(self, body: Self) -> None:
        """Add what runs next, and may run more than once."""
        self.add(replace(body, parts=[Loop(body.parts)]))

    @property
    def price(self) -> tuple[int, int]:
        """The key by which branches are compared: FLOPs, then MACs."""
        return sum(op.flops for op in self.operators), sum(op.macs for op in self.operators)

    def count_missing(self) -> Counter[str]:
        """Return what is not counted, with its calls."""
        missing = self.missed.copy()
        for op in self.operators:
            if op.missing:
                missing[op.missing] += max(op.times, 1)
        return missing


@dataclass
class Work(RunningOrder[Executed, Choice]):
    """What runs when a graph runs, and what is known of it only while it runs."""

    def as_branch(self, path: str) -> Branch:
        """Return it as one side of a choice, all of it in the layer at this path."""
        return Branch.of(((path, op.macs, op.flops) for op in self.operators), self.choices)


W = TypeVar("W", bound=RunningOrder[Any, Any])


@dataclass(frozen=True)
class Body(Generic[W, V]):
    """What a graph inside an operator does, and the values that it returns."""

    work: W
    outputs: Sequence[V]


class NotesWork(Protocol[W]):
    """A walk over a graph, which notes what runs."""

    work: W


@contextmanager
def note_apart(walk: NotesWork[W]) -> Iterator[W]:
    """Yield the work of what a walk goes over inside, which is not added to its work so far."""
    work_so_far, walk.work = walk.work, type(walk.work)()
    try:
        yield walk.work
    finally:
        walk.work = work_so_far


def count_one(
    counted: Body[W, V],
    others: Sequence[Body[W, V]],
    reason: str,
    hand_on: Callable[[V, V], Any],
    choose: Callable[[Sequence[W], str], list[Any]],
) -> W:
    """Return the work of an operator that runs one of several bodies: that of one of them, and how the others differ.

    What is not counted is named for all bodies.

    Args:
        counted: The body that is counted.
        others: The bodies that may run instead; they return their values as those of the counted one.
        reason: Why it is not known which one runs, and which one is counted.
        hand_on: Makes an operator that returns one value as another one, in the same buffer.
        choose: Returns the choices of the work of all bodies, the counted one first, for that reason.
    """
    works = [counted.work, *(body.work for body in others)]
    missing = reduce(or_, (work.count_missing() for work in works))
    sides, are_alike = [counted.work.parts], True
    for other in others:
        pairs = _pair_results(counted, other)
        are_alike = are_alike and pairs is not None
        sides.append([*other.work.parts, *(hand_on(value, result) for value, result in pairs or ())])
    return replace(
        counted.work,
        parts=[Fork(sides, reason, are_alike)],
        choices=choose(works, reason),
        missed=counted.work.missed + (missing - counted.work.count_missing()),
    )


def make_choices(works: Sequence[W], reason: str, as_branch: Callable[[W], Branch]) -> list[Choice]:
    """Return the choice between the work of several bodies, the first of which is counted.

    Where all have the same work, and may do the same instead of it, that is all that is to be chosen.
    """
    branches = tuple(map(as_branch, works))
    are_alike = all(branch == branches[0] for branch in branches)
    return list(works[0].choices) if are_alike else [Choice(branches, 0, reason)]


def _pair_results(counted: Body[W, V], other: Body[W, V]) -> list[tuple[V, V]] | None:
    """Return the values of a body that are handed on in place of those of the counted one, each with the latter.

    None where the counted body returns a value that it has not made, or returns one twice, and the other body has
    another value in its place: both are alive behind them, where operators name only one.
    """
    made = {value.number for op in counted.work.operators for value in op.outputs}
    pairs = []
    for value, result in zip(other.outputs, counted.outputs, strict=True):
        if value.number == result.number:
            continue
        if result.number not in made:
            return None
        made.remove(result.number)
        pairs.append((value, result))
    return pairs


def count_first(first: Body[Work, G], second: Body[Work, G], node: int, path: str, reason: str) -> Work:
    """Return the work of an operator that runs one of two bodies: that of the first, and how the second one differs.

    Args:
        first: The body that is counted.
        second: The body that may run instead; it returns its values as those of the first.
        node: The index of the node of the model's own graph that the operator comes from.
        path: The path of the operator's layer.
        reason: Why it is not known which one runs, and which one is counted.
    """
    return count_one(
        first,
        [second],
        reason,
        hand_on=lambda value, result: Executed(HANDING_ON, node, (value,), (result,)),
        choose=lambda works, reason: make_choices(works, reason, lambda work: work.as_branch(path)),
    )


# How often the body of a loop runs ------------------------------------------------------------------------------------


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
