"""The objects of a walk through a graph: values, their scopes, and the operators that ran."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from profilerkit.backend_kit import running_order
from profilerkit.backend_kit.graph_work import make_choices
from profilerkit.trace.bounds import Branch, Choice

from .ownership import Owner
from .tensor_facts import PartialShape, Tensor, common_shape

__all__ = ["LOOKUPS", "NOT_FOLDED", "Executed", "Scope", "Value", "Work", "count_one"]

#: Operators that read a variable by its handle.
LOOKUPS = ("ResourceGather", "ResourceGatherNd")
#: The content of `Value.constant` before it is first read.
NOT_FOLDED: Any = object()


@dataclass(eq=False, slots=True)
class Value(Tensor):
    """One tensor that flows through a graph, and the facts about it that are known before the model runs.

    Attributes:
        tensor: The graph's tensor that it comes from, which knows the content of a resource.
        scope: The scope of its operator.
        constant: Its numpy array, or None if that is not known.
        elements: The shape of the elements of a list; None until something is put in.
        length: How many elements a list has.
    """

    tensor: Any
    scope: Scope | None = None
    constant: Any = NOT_FOLDED
    elements: PartialShape = None
    length: int | None = None

    def common(self, other: Value) -> Value:
        """Return the common facts of two values: the known facts about a variable that has one of the values."""
        shape = common_shape(self.shape, other.shape)
        elements = common_shape(self.elements, other.elements)
        length = self.length if self.length == other.length else None
        return Value(self.number, shape, self.dtype, self.tensor, elements=elements, length=length)

    def is_known_as(self, other: Value) -> bool:
        """Return whether the same is known about another value."""
        return (self.shape, self.elements, self.length) == (other.shape, other.elements, other.length)


@dataclass(eq=False)
class Scope:
    """One body of operators as it is run: the main graph, a called function, a loop's body, a branch.

    Attributes:
        graph: The body.
        arguments: A value for each input of the graph.
        outer: The scope that calls it.
        owner: The layer that calls it, to which its operators belong unless a layer inside claims them.
        times: How often it runs, in all.
        needed_outputs: The indices of the graph's outputs that the caller uses; None for all.
        is_backward: Whether its operators compute gradients in a training step.
        values: The values made so far, by the name of their tensor.
        used: The names of the tensors that an operator which runs, or the caller, takes.
    """

    graph: Any
    arguments: list[Value]
    outer: Scope | None
    owner: Owner
    times: int = 1
    needed_outputs: Set[int] | None = None
    is_backward: bool = False
    values: dict[str, Value] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def bind_arguments(self) -> None:
        """Make the arguments the values of the graph's inputs."""
        for tensor, value in zip(self.graph.inputs, self.arguments, strict=True):
            self.values[tensor.name] = value

    def needs(self, index: int) -> bool:
        """Return whether the caller uses an output."""
        return self.needed_outputs is None or index in self.needed_outputs

    def find_used_outputs(self, operator: Any) -> set[int]:
        """Return the indices of the outputs of one of its operators that are used."""
        return {index for index, tensor in enumerate(operator.outputs) if tensor.name in self.used}

    def find_around(self, graph: Any) -> Scope | None:
        """Return the innermost scope of a graph among this scope and the scopes around it; None if there is none."""
        scope: Scope | None = self
        while scope is not None and scope.graph is not graph:
            scope = scope.outer
        return scope


@dataclass(eq=False, slots=True)
class Executed:
    """One operator of a graph, in the order of execution.

    Attributes:
        operator: The name of its kind: "Conv2D".
        inputs: The values that it reads.
        outputs: The values that it makes.
        times: How often it runs.
        owner: The layer that it belongs to.
        macs: Multiply-accumulates of all its runs together.
        flops: Floating-point operations of all its runs together.
        missing: The work that is not counted, in words; empty if all is counted.
        equation: The equation of an ``Einsum``.
        silent: Whether it is no operator of the model, but hands a value into a loop or out of it.
        is_backward: Whether it belongs to the gradients of a training step.
    """

    operator: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    times: int
    owner: Owner
    macs: int = 0
    flops: int = 0
    missing: str = ""
    equation: str = ""
    silent: bool = False
    is_backward: bool = False

    @classmethod
    def of_handing_on(cls, values: Sequence[Tensor], results: Sequence[Tensor], owner: Owner) -> Executed:
        """Return an operator that hands values on as others, in the same buffers."""
        return cls("Identity", values, results, 1, owner, silent=True)

    def scale(self, share: Fraction) -> None:
        """Reduce the cost to a share of it."""
        self.macs, self.flops = int(self.macs * share), int(self.flops * share)


@dataclass
class Work(running_order.RunningOrder[Executed, Choice]):
    """The operators that run, and the loops and branches among them."""

    def as_branch(self) -> Branch:
        """Return it as one side of a choice: the MACs and FLOPs by layer, each operator's in its own."""
        return Branch.of(((op.owner.path, op.macs, op.flops) for op in self.operators), self.choices)


def count_one(counted: Work, others: Sequence[Work], reason: str) -> Work:
    """Return the work of one of several bodies, and how the others differ, like `running_order.count_one`."""
    choices = make_choices([work.as_branch() for work in (counted, *others)], reason)
    return running_order.count_one(counted, others, choices, reason)
