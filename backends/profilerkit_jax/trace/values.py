"""The values of a jaxpr, its equations in the order of execution, and the branches that depend on values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from profilerkit.backend_kit import running_order
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.costs import Cost, Shape
from profilerkit.trace.bounds import Branch, Choice
from profilerkit.trace.records import TensorInfo

from ..model.arrays import count_bytes

__all__ = ["NO_WORK", "Executed", "PendingChoice", "Value", "Work", "count_one", "give_to_last"]

#: The cost of an equation that only moves or names values.
NO_WORK = Cost(0, 0)


@dataclass(eq=False)
class Value:
    """A value of a jaxpr.

    Attributes:
        number: Its identity in the lifetimes of buffers; views of one buffer have different numbers.
        shape: Its sizes.
        dtype: The name of its dtype: "float32".
        bytes: The bytes that it takes.
        constant: Whether it is a weight, or a number of the program: no caller gives it.
        scalar: The number that all of its elements equal, if that is known before the function runs.
        summands: How many elements were added up to each of its own; 0 if it is no sum.
        unpadded: How many of its elements were there before it was padded; 0 if it was not.
        is_reversed: Whether the backward pass has reversed the order of its elements.
        compute: Returns its elements, if they follow from inputs that were given and small arrays of the program alone.
    """

    number: int
    shape: Shape
    dtype: str
    bytes: int
    constant: bool = False
    scalar: Any = None
    summands: int = 0
    unpadded: int = 0
    is_reversed: bool = False
    compute: Callable[[], Any] | None = None

    @classmethod
    def of(cls, number: int, aval: Any, **facts: Any) -> Value:
        """Return the value of an abstract value: an array, a reference to one, or a token."""
        shape = Shape(int(size) for size in getattr(aval, "shape", ()))
        dtype = getattr(aval, "dtype", None)
        return cls(number, shape, "token" if dtype is None else str(dtype), count_bytes(shape, dtype), **facts)

    @classmethod
    def literal(cls, number: int, aval: Any, value: Any) -> Value:
        """Return the value of a number that stands in the jaxpr."""
        return cls.of(number, aval, constant=True, scalar=np.asarray(value)[()] if np.ndim(value) == 0 else None)

    @property
    def info(self) -> TensorInfo:
        """Shape and dtype for reports."""
        return TensorInfo(tuple(self.shape), self.dtype)

    def forget(self) -> Value:
        """Return the same value without known facts: it may change, for example from one turn of a loop to the next."""
        return Value(self.number, self.shape, self.dtype, self.bytes)


# Equations and branches -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Executed:
    """One equation of a jaxpr, in the order of execution.

    Attributes:
        operator: The name of its primitive: "dot_general".
        chain: The calls of layers around it, the model's own first.
        inputs: The values that it reads.
        outputs: The values that it makes.
        times: How often it runs.
        macs: Multiply-accumulates of all its runs together.
        flops: Floating-point operations of all its runs together.
        missing: The work that is not counted, in words; empty if all is counted.
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


def give_to_last(equations: Sequence[Executed], name: str, cost: Cost) -> None:
    """Give the last equation of a function, or of a call of a layer, its name and the cost of each run; others nothing.

    It runs as often as any of the equations.
    """
    times = max(equation.times for equation in equations)
    for equation in equations:
        equation.macs = equation.flops = 0
    last = equations[-1]
    last.operator, last.times = name, times
    last.macs, last.flops = cost.times(times)


class Work(running_order.RunningOrder[Executed, "PendingChoice"]):
    """The equations that run, and the loops and branches among them."""


@dataclass(eq=False)
class PendingChoice:
    """A branch that only the inputs' values decide: the work of each side; the first side is counted.

    Its work is summed up after the walk over the whole pass: until then `layers` moves work between equations.
    """

    sides: Sequence[Work]
    reason: str

    def sum_up(self) -> Choice:
        """Return the choice with the work of each side, by layers."""
        branches = [
            Branch.of(
                [(op.chain[-1].path, op.macs, op.flops) for op in side.operators],
                [choice.sum_up() for choice in side.choices],
            )
            for side in self.sides
        ]
        return Choice(tuple(branches), 0, self.reason)

    def list_uncounted(self) -> Iterator[Executed]:
        """Yield the equations of the sides that are not counted, also of branches inside any of the sides."""
        for side in self.sides[1:]:
            yield from side.operators
        for side in self.sides:
            for choice in side.choices:
                yield from choice.list_uncounted()


def count_one(counted: Work, others: Sequence[Work], reason: str) -> Work:
    """Return the work of one of several bodies, and how the others differ, like `running_order.count_one`."""
    return running_order.count_one(counted, others, [PendingChoice([counted, *others], reason)], reason)
