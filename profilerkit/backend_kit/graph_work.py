"""What runs when a graph of operators runs.

A backend that goes over a graph in its order notes each operator as `Executed` in a `Work`, with the loops and
branches around it; `graph_traces.trace_work` makes the trace of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypeVar

from ..trace.bounds import Branch, Choice
from .branch_memory import Fork, Side
from .scoped_calls import ScopedValue

__all__ = [
    "HANDING_ON",
    "Body",
    "Countable",
    "Executed",
    "GraphValue",
    "RunningOrder",
    "Work",
    "count_first",
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


V = TypeVar("V", bound=GraphValue)


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
        executed: The operators, in order.
        spans: Where in ``executed`` loops begin and end.
        choices: Where the model does one of several things, and which one is not known.
        forks: The same, for the bytes alive.
        missed: What is not counted beside the operators, with its calls: what only branches have that are not counted
            themselves, and loops that run nobody knows how often.
    """

    executed: list[Op] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    choices: list[C] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)

    def add(self, other: Self) -> None:
        """Add what runs next."""
        start = len(self.executed)
        self.executed += other.executed
        self.spans += [(start + begin, start + end) for begin, end in other.spans]
        self.choices += other.choices
        self.forks += [fork.shift(start) for fork in other.forks]
        self.missed += other.missed

    def add_loop(self, body: Self) -> None:
        """Add what runs next, and may run more than once."""
        start = len(self.executed)
        self.add(body)
        self.spans.append((start, len(self.executed)))

    @property
    def price(self) -> tuple[int, int]:
        """The key by which branches are compared: FLOPs, then MACs."""
        return sum(op.flops for op in self.executed), sum(op.macs for op in self.executed)

    def count_missing(self) -> Counter[str]:
        """Return what is not counted, with its calls."""
        missing = self.missed.copy()
        for op in self.executed:
            if op.missing:
                missing[op.missing] += max(op.times, 1)
        return missing

    def as_side(self, *further: Op) -> Side:
        """Return it as one side of a fork; the operators ``further`` run after it."""
        return Side((*self.executed, *further), tuple(self.spans), tuple(self.forks))


@dataclass
class Work(RunningOrder[Executed, Choice]):
    """What runs when a graph runs, and what is known of it only while it runs."""

    def as_branch(self, path: str) -> Branch:
        """Return it as one side of a choice, all of it in the layer at this path."""
        return Branch.of(((path, op.macs, op.flops) for op in self.executed), self.choices)


@dataclass(frozen=True)
class Body(Generic[V]):
    """What a graph inside an operator does, and the values that it returns."""

    work: Work
    outputs: Sequence[V]


W = TypeVar("W", bound=RunningOrder[Any, Any])


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


def count_first(first: Body[V], second: Body[V], node: int, path: str, reason: str) -> Work:
    """Return the work of an operator that runs one of two bodies: that of the first, and how the second one differs.

    Args:
        first: The body that is counted.
        second: The body that may run instead; it returns its values as those of the first.
        node: The index of the node of the model's own graph that the operator comes from.
        path: The path of the operator's layer.
        reason: Why it is not known which one runs, and which one is counted.
    """
    handing_on = [
        Executed(HANDING_ON, node, (value,), (result,))
        for value, result in zip(second.outputs, first.outputs, strict=True)
        if value is not result
    ]
    branches = first.work.as_branch(path), second.work.as_branch(path)
    return replace(
        first.work,
        choices=first.work.choices if branches[0] == branches[1] else [Choice(branches, 0, reason)],
        forks=[Fork(0, first.work.as_side(), [second.work.as_side(*handing_on)], reason)],
        missed=first.work.missed + (second.work.count_missing() - first.work.count_missing()),
    )
