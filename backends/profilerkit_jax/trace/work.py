"""What runs in a jaxpr: its equations in their order, and the branches that only the values of inputs decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from profilerkit.backend_kit.graph_work import RunningOrder
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.trace.bounds import Branch, Choice

from .values import Value

__all__ = ["Executed", "PendingChoice", "Work"]


@dataclass(eq=False)
class Executed:
    """One equation that the walk came by, in the order of execution.

    Attributes:
        operator: The name of its primitive: "dot_general".
        chain: The calls of layers that it is in, the model's own first.
        inputs: The values that it reads.
        outputs: The values that it makes.
        times: How often it runs.
        macs: Multiply-accumulates of all its runs together.
        flops: Floating-point operations of all its runs together.
        missing: What is not counted of it, in words; empty where all is.
        is_backward: Whether it belongs to the backward pass.
        sources: The values whose buffers the outputs share, by the outputs' numbers.
    """

    operator: str
    chain: tuple[Scope, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    times: int = 1
    macs: int = 0
    flops: int = 0
    missing: str = ""
    is_backward: bool = False
    sources: dict[int, int] = field(default_factory=dict)

    def leave_work(self) -> None:
        """Count nothing of it: another equation has the work."""
        self.macs = self.flops = 0


class Work(RunningOrder[Executed, "PendingChoice"]):
    """The equations that run, and the loops and branches among them."""


@dataclass(eq=False)
class PendingChoice:
    """A branch that only the inputs' values decide: what each side runs; the first one is counted.

    Its work is summed up when the whole pass was gone over: until then `layer_costs` moves work between equations.
    """

    sides: Sequence[Work]
    reason: str

    def sum_up(self) -> Choice:
        """Return the choice with the work of each side, by layers."""
        return Choice(tuple(map(_sum_up_side, self.sides)), 0, self.reason)

    def list_uncounted(self) -> Iterator[Executed]:
        """Yield the equations of the sides that are not counted, also of branches inside any of the sides."""
        for side in self.sides[1:]:
            yield from side.operators
        for side in self.sides:
            for choice in side.choices:
                yield from choice.list_uncounted()


def _sum_up_side(side: Work) -> Branch:
    operators = [(op.chain[-1].path, op.macs, op.flops) for op in side.operators]
    return Branch.of(operators, [choice.sum_up() for choice in side.choices])
