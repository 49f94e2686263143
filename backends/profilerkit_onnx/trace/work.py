"""What a walk notes of the operators that it comes by: all that the counts and the bytes alive follow from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from profilerkit.backend_kit.branch_memory import Fork, Side
from profilerkit.trace.bounds import Branch, Choice

from .values import Executed

__all__ = ["Work"]


@dataclass
class Work:
    """What runs when a graph runs, and what is known of it only while it runs.

    Attributes:
        executed: The operators, in order.
        spans: Where in ``executed`` loops begin and end.
        choices: Where the model does one of several things, and which one is not known.
        forks: The same, for the bytes alive.
        missed: What is not counted in branches that are not counted themselves, with its calls.
    """

    executed: list[Executed] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)

    def add(self, other: Work) -> None:
        """Add the work of what runs next."""
        start = len(self.executed)
        self.executed += other.executed
        self.spans += [(start + begin, start + end) for begin, end in other.spans]
        self.choices += other.choices
        self.forks += [fork.shift(start) for fork in other.forks]
        self.missed += other.missed

    def add_loop(self, body: Work) -> None:
        """Add the work of what runs next, and may run more than once."""
        start = len(self.executed)
        self.add(body)
        self.spans.append((start, len(self.executed)))

    @property
    def price(self) -> tuple[int, int]:
        """The key by which branches are compared: FLOPs, then MACs."""
        return sum(op.flops for op in self.executed), sum(op.macs for op in self.executed)

    def count_missing(self) -> Counter[str]:
        """What is not counted, with its calls."""
        missing = self.missed.copy()
        for op in self.executed:
            if op.missing:
                missing[op.missing] += max(op.times, 1)
        return missing

    def as_branch(self, path: str) -> Branch:
        """Return it as one side of a choice, all of it in the layer at this path."""
        return Branch.of(((path, op.macs, op.flops) for op in self.executed), self.choices)

    def as_side(self, *further: Executed) -> Side:
        """Return it as one side of a fork; the operators ``further`` run after it."""
        return Side((*self.executed, *further), tuple(self.spans), tuple(self.forks))
