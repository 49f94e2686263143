"""A call of a program: the arguments for the inputs of its graph, and the bytes alive while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .folding import Folding
from .memory import list_live_bytes
from .program import Program, ProgramInput
from .tensor_facts import Tensor, count_tensor_bytes, static_shape
from .values import Executed, Value

__all__ = ["ProgramCall", "list_arguments"]

#: The most bytes of a captured tensor whose numbers are read: a larger one limits no loop.
_MOST_BYTES_READ = 64


class Argument(NamedTuple):
    """The argument for one input of a program's graph.

    Attributes:
        value: Its value, of the shape in the call. Each part of a sparse or ragged tensor is an argument: a sparse
            tensor of 1000 x 1000 that stores 5 values has values of shape (5,) and indices of shape (5, 2).
        bytes: The bytes of the value.
        is_captured: Whether the function holds it, and the caller does not give it.
    """

    value: Value
    bytes: int
    is_captured: bool


def list_arguments(program: Program, folding: Folding) -> list[Argument]:
    """Return the arguments of a call of a program, in the order of its graph's inputs; ``folding`` makes the values."""
    arguments = []
    captures = {placeholder.name: tensor for tensor, placeholder in program.graph.captures}
    inputs = iter(program.inputs)  # in the order of the placeholders
    for placeholder in program.graph.inputs:
        is_captured = placeholder.name in captures
        source = _describe_captured(captures[placeholder.name], placeholder) if is_captured else next(inputs)
        value = folding.new_value(source.shape, placeholder.dtype.name, placeholder)
        if is_captured:
            value.constant = source.numbers  # the same in each call
        else:  # decisions by its numbers hold for this call alone
            folding.give_input(value, source.numbers)
        arguments.append(Argument(value, count_tensor_bytes(value.shape, value.dtype), is_captured))
    return arguments


def _describe_captured(tensor: Any, placeholder: Any) -> ProgramInput:
    """Return shape and numbers of a tensor that a function holds: a small one may limit a loop."""
    shape = static_shape(placeholder)
    size = count_tensor_bytes(shape, placeholder.dtype.name)  # 0 if it is not known
    is_readable = 0 < size <= _MOST_BYTES_READ and hasattr(tensor, "numpy")  # a tensor of an outer graph has no numbers
    return ProgramInput(shape, tensor.numpy() if is_readable else None)


class ProgramCall(NamedTuple):
    """A call of a program: its arguments and results, and the bytes alive meanwhile."""

    arguments: Sequence[Argument]
    results: Sequence[Value]

    @property
    def tensors(self) -> list[Tensor]:
        """The arguments' numbers, shapes and dtypes."""
        return [argument.value.describe() for argument in self.arguments]

    @property
    def input_bytes(self) -> int:
        """The bytes of the inputs."""
        return sum(argument.bytes for argument in self.arguments if not argument.is_captured)

    @property
    def capture_bytes(self) -> int:
        """The bytes of the tensors that the function holds."""
        return sum(argument.bytes for argument in self.arguments if argument.is_captured)

    def list_live_bytes(self, executed: Sequence[Executed], loops: Sequence[tuple[int, int]]) -> Sequence[int]:
        """Return the bytes alive while each operator runs; tensors that the function holds count as nothing here."""
        sizes = {argument.value.number: 0 if argument.is_captured else argument.bytes for argument in self.arguments}
        return list_live_bytes(executed, self.tensors, sizes, [value.number for value in self.results], loops)
