"""What runs in a graph: its operators in their order, and what is known of them only while they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from profilerkit.backend_kit.graph_work import RunningOrder
from profilerkit.trace.bounds import Branch, Choice

from .values import Executed, Value

__all__ = ["Body", "Work"]


@dataclass
class Work(RunningOrder[Executed, Choice]):
    """The operators that run, and the loops and branches among them.

    Attributes:
        missed: What is not counted beside the operators, with its calls: loops that run nobody knows how often, and
            what only branches have that are not counted themselves.
    """

    missed: Counter[str] = field(default_factory=Counter)

    def add(self, other: Self) -> None:
        """Add the work of what runs next."""
        super().add(other)
        self.missed += other.missed

    def count_missing(self) -> Counter[str]:
        """What is not counted, with its calls."""
        return self.missed + super().count_missing()

    def as_branch(self) -> Branch:
        """Return it as one side of a choice, each operator in its own layer."""
        return Branch.of(((op.owner.path, op.macs, op.flops) for op in self.executed), self.choices)


class Body(NamedTuple):
    """What a body of operators does, and the values that it returns."""

    work: Work
    outputs: Sequence[Value]
