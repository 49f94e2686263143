"""The operators that a graph of a format executes, in their order.

A backend walks over a graph and adds each operator as `Executed` to a `Work`, with the loops and branches around it.
`count_first` joins the `Work` of two branches to one, and `graph_traces.trace_work` makes the trace of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..costs import Shape
from ..process.cached import cached_property
from ..trace.bounds import Branch, Choice
from ..trace.dtypes import element_bytes
from ..trace.records import TensorInfo
from .running_order import RunningOrder, count_one
from .scoped_calls import ScopedValue

__all__ = ["UNSIZED", "Executed", "GraphValue", "SizedValue", "Work", "count_bytes", "count_first", "make_choices"]

#: Dtypes whose elements have no fixed size; the last is an unknown dtype.
UNSIZED = ("string", "resource", "variant", "")


class GraphValue(ScopedValue, Protocol):
    """A value of a graph, with its size as far as it is known before the model runs."""

    @property
    def shape(self) -> Any:
        """Its shape; None where a size is not known."""

    @property
    def bytes(self) -> int:
        """The bytes that it takes; 0 where its shape is not known."""


def count_bytes(elements: int, dtype: str) -> int:
    """Return the bytes of elements, several of which may share a byte; 0 for a dtype without a fixed size.

    >>> count_bytes(5, "float32"), count_bytes(5, "int4"), count_bytes(5, "string")
    (20, 3, 0)
    """
    return 0 if dtype in UNSIZED else math.ceil(elements * element_bytes(dtype))


@dataclass(eq=False)
class SizedValue:
    """A `GraphValue` of a format that has names of dtypes, and sizes.

    Attributes:
        number: Its number in the lifetimes of buffers.
        dtype: The name of its dtype.
        dims: Its sizes, None for one that is not known before the model runs; None if not even their number is.
        constant: Whether it follows from the file and the shapes of the inputs alone.
    """

    number: int
    dtype: str
    dims: tuple[int | None, ...] | None
    constant: bool = False

    @cached_property
    def shape(self) -> Shape | None:
        """Its shape, as formulas take it; None where a size is not known."""
        sizes = [size for size in self.dims or () if size is not None]
        return None if self.dims is None or len(sizes) < len(self.dims) else Shape(sizes)

    @cached_property
    def bytes(self) -> int:
        """The bytes that it takes; 0 where its shape is not known."""
        return 0 if self.shape is None else count_bytes(self.shape.numel, self.dtype)

    @cached_property
    def info(self) -> TensorInfo:
        """Shape and dtype for reports, with -1 for a size that is not known."""
        return TensorInfo(tuple(-1 if size is None else size for size in self.dims or ()), self.dtype)


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


@dataclass
class Work(RunningOrder[Executed, Choice]):
    """The operators that a graph executes, and the facts that are known only during the walk."""

    def as_branch(self, path: str) -> Branch:
        """Return it as one side of a choice, all of it in the layer at this path."""
        return Branch.of(((path, op.macs, op.flops) for op in self.operators), self.choices)


def count_first(first: Work, second: Work, path: str, reason: str) -> Work:
    """Return the work of an operator, in the layer at ``path``, that runs one of two bodies: the work of the first.

    ``reason`` says why it is not known which one runs, and which one is counted.
    """
    return count_one(first, [second], make_choices([first.as_branch(path), second.as_branch(path)], reason), reason)


def make_choices(branches: Sequence[Branch], reason: str) -> list[Choice]:
    """Return the choice between branches, the first of which is counted.

    Where all have the same work, and may do the same instead of it, that is all that is to be chosen.
    """
    are_alike = all(branch == branches[0] for branch in branches)
    return list(branches[0].choices) if are_alike else [Choice(tuple(branches), 0, reason)]
