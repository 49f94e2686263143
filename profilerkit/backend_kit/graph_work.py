"""The operators that a graph executes, in their order.

A backend walks over a graph and adds each operator as `Executed` to a `Work`, with the loops and branches around it.
`graph_branches` joins the `Work` of several branches to one, and `graph_traces.trace_work` makes the trace of it.
Where operators have more to tell, a backend has a class of its own for them, and a `RunningOrder` of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypeVar

from ..trace.bounds import Branch, Choice
from .program_parts import Fork, Hold, Loop, list_counted
from .scoped_calls import ScopedValue

__all__ = [
    "Body",
    "Countable",
    "Executed",
    "GraphValue",
    "Numbered",
    "RunningOrder",
    "Work",
    "note_apart",
]


class GraphValue(ScopedValue, Protocol):
    """A value of a graph, with its size as far as it is known before the model runs."""

    @property
    def shape(self) -> Any:
        """Its shape; None where a size is not known."""

    @property
    def bytes(self) -> int:
        """The bytes that it takes; 0 where its shape is not known."""


@dataclass(eq=False)
class Executed:
    """One operator of a graph, in the order of execution.

    Attributes:
        operator: Its name: "Conv", "com.microsoft::Gelu".
        node: The index of the node of the model's own graph that it comes from.
        inputs: The values that it reads.
        outputs: The values that it makes.
        times: How many times it runs.
        macs: Multiply-accumulates of all its runs together.
        flops: Floating-point operations of all its runs together.
        missing: The work that is not counted, in words; empty if all is counted.
        is_masked: Whether it is attention with a mask that takes scores away.
        product_dtype: The dtype of the factors of a product if inputs and outputs do not show it; otherwise None.
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
    """An operator with the work of all its runs, and the work that is not counted, in words."""

    times: int
    macs: int
    flops: int
    missing: str


Op = TypeVar("Op", bound=Countable)
C = TypeVar("C")  # a choice, as the backend notes it


@dataclass
class RunningOrder(Generic[Op, C]):
    """Operators in the order of execution, with the loops among them, and the branches of which only one runs.

    Attributes:
        parts: Operators, loops, forks, and holds of values, in order.
        choices: Places where the model does one of several things, and it is not known which.
        missed: Further uncounted work, with its calls: work that only uncounted branches have, and loops with an
            unknown number of turns.
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
        """Keep values alive until here that an uncounted operator reads."""
        self.parts.append(Hold(op))

    def add(self, other: Self) -> None:
        """Add operators that run next."""
        self.parts += other.parts
        self.choices += other.choices
        self.missed += other.missed

    def add_loop(self, body: Self) -> None:
        """Add operators that run next, and may run more than once."""
        self.add(replace(body, parts=[Loop(body.parts)]))

    @property
    def price(self) -> tuple[int, int]:
        """The key by which branches are compared: FLOPs, then MACs."""
        operators = self.operators
        return sum(op.flops for op in operators), sum(op.macs for op in operators)

    def count_missing(self) -> Counter[str]:
        """Return the uncounted work, with its calls."""
        missing = self.missed.copy()
        for op in self.operators:
            if op.missing:
                missing[op.missing] += max(op.times, 1)
        return missing


@dataclass
class Work(RunningOrder[Executed, Choice]):
    """The operators that a graph executes, and the facts that are known only during the walk."""

    def as_branch(self, path: str) -> Branch:
        """Return it as one side of a choice, all of it in the layer at this path."""
        return Branch.of(((path, op.macs, op.flops) for op in self.operators), self.choices)


class Numbered(Protocol):
    """A value that is known by its number."""

    @property
    def number(self) -> int: ...


W = TypeVar("W", bound=RunningOrder[Any, Any])
W_co = TypeVar("W_co", bound=RunningOrder[Any, Any], covariant=True)
V_co = TypeVar("V_co", bound=Numbered, covariant=True)


@dataclass(frozen=True)
class Body(Generic[W_co, V_co]):
    """The work of a graph inside an operator, and the values that it returns."""

    work: W_co
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
